"""Time the suite's modules beside hand-written scripts, in turns, and print the ratios.

Both run as processes of their own that take turns of about a second each, so that whatever slows
the machine slows both. The suite's turn is cut into blocks as short as the suite's own.

Usage: .venv/bin/python scripts/baselines/compare.py [TURNS [MODEL [FRAMEWORK[:VARIANT] ...]]]
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from suite import inputs, manifest
from suite.engines.base import Prepared
from suite.engines.venv import INHERITED, VenvEngine
from suite.inputs import Inputs
from suite.manifest import Measure
from suite.plan import Trial, expand

BLOCK_S = Measure().block_s
BLOCKS = 4  # of the suite in one turn
CALIBRATION_S = 1.0
WARMUP_TURNS = 3
FRAMEWORKS = ("pytorch", "tensorflow", "jax", "mxnet")
HERE = Path(__file__).parent


class Contender:
    """A process that does steps when told to and says how long they took."""

    def __init__(
        self, command: list[str | Path], environment: dict[str, str], path: Path | None = None
    ) -> None:
        environ = {key: os.environ[key] for key in INHERITED if key in os.environ} | environment
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


def main(turns: int, model: str, only: list[str]) -> None:
    suite, known = manifest.suite("zoo"), manifest.frameworks()
    work = tuple(workload for workload in suite.workloads if workload.model == model)
    chosen = suite.model_copy(update={"workloads": work})
    engine = VenvEngine()
    plan = expand(chosen, known, manifest.tracks(), only=only or FRAMEWORKS)
    with tempfile.TemporaryDirectory() as place:
        given = inputs.obtain(work[0], seed=1, place=Path(place) / "inputs", say=print)
        for trial in plan.trials:
            where = engine.prepare(known[trial.framework], print)
            folder = Path(place) / trial.trial_id
            inputs.write_trial(
                folder,
                trial,
                given,
                mode="train",
                measure=suite.measure,
                cpus=engine.host["cpus"],
            )
            report(trial, ratios(engine, where, trial, folder, given, turns))


def ratios(
    engine: VenvEngine, where: Prepared, trial: Trial, folder: Path, given: Inputs, turns: int
) -> list[float]:
    """The suite's speed over the script's, for each pair of turns."""
    script, work = HERE / f"{trial.workload.model}_{trial.framework}.py", trial.workload
    written = json.loads((folder / "trial.json").read_text(encoding="utf-8"))
    arguments = [trial.variant, str(work.batch_size), str(work.optimizer.learning_rate)]
    theirs = Contender([where.python, script, given.data, *arguments], written["environment"])
    ours = Contender(
        [where.python, HERE / "suite_step.py", folder], written["environment"], engine.staged()
    )
    for contender in (ours, theirs):
        contender.steps(1)
    step_s = theirs.steps(2) / 2
    step_s = theirs.steps(calibrating := max(2, round(CALIBRATION_S / step_s))) / calibrating
    block = max(1, round(BLOCK_S / step_s))
    in_turn = max(1, round(BLOCKS * BLOCK_S / (block * step_s)))  # blocks
    found = []
    for turn in range(WARMUP_TURNS + turns):
        pair = [lambda: blocks(ours, in_turn, block), lambda: theirs.steps(in_turn * block)]
        durations = [run() for run in (pair if turn % 2 else reversed(pair))]
        ours_s, theirs_s = durations if turn % 2 else reversed(durations)
        found.append(theirs_s / ours_s)
    ours.end()
    theirs.end()
    return found[WARMUP_TURNS:]


def blocks(contender: Contender, count: int, steps: int) -> float:
    return sum(contender.steps(steps) for _ in range(count))


def report(trial: Trial, found: list[float]) -> None:
    low, middle, high = statistics.quantiles(found, n=4)
    print(
        f"{trial.means} {trial.workload.model}, suite / script: "
        f"median {middle:.3f} of {len(found)} pairs, "
        f"half of them within {low:.3f} to {high:.3f}, "
        f"range {min(found):.3f} to {max(found):.3f}",
        flush=True,
    )


if __name__ == "__main__":
    turns, model = (*sys.argv[1:3], *("40", "lenet")[len(sys.argv[1:3]) :])
    main(int(turns), model, sys.argv[3:])
