"""Time the suite's modules beside hand-written scripts, in turns, and print the ratios.

Both run as processes of their own that take turns of about a second each, so that whatever slows
the machine slows both. The suite's turn is cut into blocks as short as the suite's own.

Usage: .venv/bin/python scripts/baselines/compare.py [TURNS] [FRAMEWORK ...]
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from suite import datasets, inputs, manifest
from suite.engines.base import Prepared
from suite.engines.venv import INHERITED, VenvEngine
from suite.manifest import Measure
from suite.plan import Trial, expand
from suite.worker import host

BLOCK_S = Measure().block_s
BLOCKS = 4  # of the suite in one turn
WARMUP_TURNS = 3
HERE = Path(__file__).parent


class Contender:
    """A process that does steps when told to and says how long they took."""

    def __init__(self, command: list[str | Path], path: Path | None = None) -> None:
        environ = {key: os.environ[key] for key in INHERITED if key in os.environ}
        environ["OMP_NUM_THREADS"] = str(len(host.cpus()))  # as the worker sets it
        if path:
            environ["PYTHONPATH"] = str(path)
        self._process = subprocess.Popen(
            command,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def steps(self, count: int) -> float:
        """Do `count` steps; return seconds."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()
        reply = self._process.stdout.readline()
        if not reply:
            raise SystemExit(f"died: {' '.join(map(str, self._process.args))}")
        return float(reply)

    def end(self) -> None:
        self._process.communicate()


def main(turns: int, only: list[str]) -> None:
    suite, dataset = manifest.suite("quick"), manifest.dataset("mnist")
    known = manifest.frameworks()
    engine = VenvEngine()
    data = datasets.ready(dataset, print)
    for trial in expand(suite, known, manifest.tracks(), only=only).trials:
        where = engine.prepare(known[trial.framework], print)
        with tempfile.TemporaryDirectory() as work:
            folder = Path(work) / "trial"
            place = Path(work) / "inputs"
            given = inputs.make(trial.workload, dataset, data=data, seed=1, place=place)
            inputs.write_trial(
                folder,
                trial,
                given,
                mode="train",
                measure=suite.measure,
                cpus=engine.host["cpus"],
            )
            report(trial, ratios(engine, where, trial, folder, data, turns))


def ratios(
    engine: VenvEngine, where: Prepared, trial: Trial, folder: Path, data: Path, turns: int
) -> list[float]:
    """The suite's speed over the script's, for each pair of turns."""
    script = HERE / f"lenet_{trial.framework}.py"
    theirs = Contender([where.python, script, data, trial.variant])
    ours = Contender([where.python, HERE / "suite_step.py", folder], path=engine.staged())
    for contender in (ours, theirs):
        contender.steps(20)
    block = max(1, round(20 * BLOCK_S / theirs.steps(20)))
    found = []
    for turn in range(WARMUP_TURNS + turns):
        pair = [lambda: blocks(ours, block), lambda: theirs.steps(BLOCKS * block)]
        durations = [run() for run in (pair if turn % 2 else reversed(pair))]
        ours_s, theirs_s = durations if turn % 2 else reversed(durations)
        found.append(theirs_s / ours_s)
    ours.end()
    theirs.end()
    return found[WARMUP_TURNS:]


def blocks(contender: Contender, steps: int) -> float:
    return sum(contender.steps(steps) for _ in range(BLOCKS))


def report(trial: Trial, found: list[float]) -> None:
    low, middle, high = statistics.quantiles(found, n=4)
    print(
        f"{trial.framework}:{trial.variant} suite / script: "
        f"median {middle:.3f} of {len(found)} pairs, "
        f"half of them within {low:.3f} to {high:.3f}, "
        f"range {min(found):.3f} to {max(found):.3f}",
        flush=True,
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 40, sys.argv[2:])
