"""Time the suite's modules beside the hand-written scripts, alternating, and print the ratios.

Usage: .venv/bin/python scripts/baselines/compare.py [PAIRS] [FRAMEWORK ...]
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from suite import datasets, events, inputs, manifest
from suite.attempt import attempt
from suite.engines.base import Prepared
from suite.engines.venv import INHERITED, VenvEngine
from suite.inputs import Inputs
from suite.manifest import Measure
from suite.plan import Trial, expand
from suite.progress import Silent

MEASURED_S = 6.0


def main(pairs: int, only: list[str]) -> None:
    silent = Silent()
    suite = manifest.suite("quick")
    known = {name: manifest.framework(name) for name in manifest.names("framework")}
    plan = expand(suite, known, only=only)
    engine = VenvEngine()
    data = datasets.ready(manifest.dataset("mnist"), silent.say)
    prepared = {
        each.framework: engine.prepare(known[each.framework], silent.say) for each in plan.trials
    }
    ratios: dict[str, list[float]] = {trial.framework: [] for trial in plan.trials}
    with tempfile.TemporaryDirectory() as work:
        workload, dataset = plan.trials[0].workload, manifest.dataset("mnist")
        given = inputs.make(workload, dataset, data=data, seed=1, place=Path(work) / "inputs")
        for pair in range(pairs):
            for trial in plan.trials:
                where = prepared[trial.framework]
                folder = Path(work) / f"{trial.framework}-{pair}"
                if pair % 2:
                    ours = suite_rate(engine, where, trial, given, folder)
                    theirs = script_rate(where, trial, data, ours)
                else:
                    theirs = script_rate(where, trial, data, 4000)
                    ours = suite_rate(engine, where, trial, given, folder)
                ratios[trial.framework].append(ours / theirs)
                print(f"{trial.framework:12} {ours:9,.0f} / {theirs:9,.0f} = {ours / theirs:.3f}")
    for name, values in ratios.items():
        low, high = min(values), max(values)
        middle = statistics.median(values)
        print(
            f"{name:12} median ratio {middle:.3f} of {len(values)} pairs ({low:.3f} to {high:.3f})"
        )


def suite_rate(
    engine: VenvEngine, where: Prepared, trial: Trial, given: Inputs, folder: Path
) -> float:
    """Images per second of one worker of the suite."""
    steady = Measure(min_measure_s=MEASURED_S, max_measure_s=MEASURED_S)
    inputs.write_trial(folder, trial, given, mode="train", measure=steady)
    log = folder.with_suffix(".log")
    done = attempt(engine, where, folder, log=log, deadline_s=300, on_event=lambda event: None)
    if done.error:
        raise SystemExit(f"{trial.framework}: {done.error.message}\n{log.read_text()}")
    blocks = events.of(done.events, "block")
    samples = sum(block["steps"] for block in blocks) * trial.workload.batch_size
    return samples / sum(block["duration_s"] for block in blocks)


def script_rate(where: Prepared, trial: Trial, data: Path, expected: float) -> float:
    """Images per second of the hand-written script, over about as long a time."""
    script = Path(__file__).with_name(f"lenet_{trial.framework}.py")
    steps = round(MEASURED_S * expected / trial.workload.batch_size)
    command = [where.python, script, data, str(steps)]
    environ = {key: os.environ[key] for key in INHERITED if key in os.environ}
    reply = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if reply.returncode:
        raise SystemExit(reply.stderr)
    return float(reply.stdout.split()[-1])


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 7, sys.argv[2:])
