"""Compare the suite's latency of one image with the tools of ONNX Runtime and OpenVINO.

`onnxruntime_test` and `benchmark_app` come with the packages. They get the ONNX file of the suite's
model, and alternate with the suite's own calls, each in a process of its own. The first prints the
mean of its calls, the second the median; the suite's calls are reduced in the same way.

Usage: .venv/bin/python scripts/baselines/own_tools.py [ROUNDS [MODEL]]
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from contenders import HERE, Contender, Start, report, starts

SLICE_S = 5.0  # of calls of the suite; the tool does as many
EXPORT = """
import sys
from pathlib import Path
import onnx
from suite.worker import onnx_model
from suite.worker.protocol import Trial, read_statistics, read_weights
trial = Trial.read(Path(sys.argv[1]))
onnx.save(onnx_model.of(trial, read_weights(trial), read_statistics(trial)), sys.argv[2])
"""
MILLISECONDS = {"ms": 1.0, "us": 0.001}
# For each framework: how its tool and the suite reduce the durations, the tool's command after the
# file of the model, and the line that it prints.
TOOLS: dict[str, tuple[str, list[str], str]] = {
    "onnxruntime": (
        "mean",
        ["onnxruntime_test", "{model}", "{calls}"],
        r"avg latency: ([\d.]+) (ms)",
    ),
    "openvino": (
        "median",
        [
            "benchmark_app",
            "-m",
            "{model}",
            "-hint",
            "latency",
            "-api",
            "sync",
            "-niter",
            "{calls}",
            "-infer_precision",
            "f32",
            "-inference_only",
            "false",
        ],
        r"Median: +([\d.]+) (us|ms)",
    ),
}


def main(rounds: int, model: str) -> None:
    for start in starts(model, list(TOOLS), infer=True):
        reduced, command, line = TOOLS[start.trial.framework]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.onnx"
            output_of(start, start.python, "-c", EXPORT, start.folder, file)
            ratios = []
            for _ in range(rounds):
                ours = Contender(
                    [start.python, HERE / "suite_call.py", start.folder, reduced],
                    start.environment,
                )
                calls = max(2, round(SLICE_S / ours.step_s()))
                suite_ms = 1000 * ours.steps(calls) / calls
                ours.end()
                name, *options = [each.format(model=file, calls=calls) for each in command]
                theirs = re.search(line, output_of(start, start.python.parent / name, *options))
                if theirs is None:
                    raise RuntimeError(f"{name} printed no {line!r}")
                ratios.append(float(theirs[1]) * MILLISECONDS[theirs[2]] / suite_ms)
        report(f"{reduced} of {command[0]} / suite", ratios)


def output_of(start: Start, *command: str | Path) -> str:
    """What a command in the framework's environment prints; RuntimeError where it fails."""
    arguments: Sequence[str] = [str(each) for each in command]
    done = subprocess.run(arguments, env=start.environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    return done.stdout


if __name__ == "__main__":
    main(int((sys.argv[1:2] or ["3"])[0]), (sys.argv[2:3] or ["lenet"])[0])
