"""Processes that do steps when told to, started for a trial of the suite, and timed in turns."""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from suite.datasets import inputs
from suite.engines.venv.engine import INHERITED, VenvEngine
from suite.manifests import catalog
from suite.manifests.workloads import Measure
from suite.protocol import trial_file
from suite.protocol.plan import Trial, expand
from suite.worker.loop import JITTER

BLOCK_S = Measure().block_s
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
        environ["PYTHONPATH"] = str(path or os.environ.get("PYTHONPATH", ""))
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115, it lives as long as the process
        self._process = subprocess.Popen(
            command,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
        )
        self.pid = self._process.pid

    def steps(self, count: int) -> float:
        """Do `count` steps; return seconds. SystemExit with its last words where it died."""
        assert self._process.stdin and self._process.stdout
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{count}\n")
            self._process.stdin.flush()
        reply = self._process.stdout.readline()
        if not reply:
            self._stderr.seek(0)
            said = self._stderr.read().decode(errors="replace").splitlines()[-3:]
            died = f"died: {' '.join(map(str, self._process.args))}"
            raise SystemExit("\n".join([died, *said]))
        return float(reply)

    def step_s(self) -> float:
        """How long a step takes, once the first are done."""
        count = max(2, round(2 * CALIBRATION_S / self.steps(2)))
        return self.steps(count) / count

    def end(self) -> None:
        self._process.communicate()


@dataclass(frozen=True, kw_only=True)
class Start:
    """A trial of the suite, and all that a process needs to do its work."""

    trial: Trial
    python: Path
    environment: dict[str, str]
    folder: Path  # with its trial.json
    data: Path
    staged: Path  # the worker's code

    def suite(self) -> Contender:
        """The suite's own step."""
        command: list[str | Path] = [self.python, HERE / "suite_step.py", self.folder]
        return Contender(command, self.environment, self.staged)


def starts(model: str, only: list[str]) -> Iterator[Start]:
    """The zoo's workload of `model` in each framework."""
    suite, known = catalog.suite("zoo"), catalog.frameworks()
    work = tuple(workload for workload in suite.workloads if workload.model == model)
    chosen = suite.model_copy(update={"workloads": work})
    engine = VenvEngine()
    plan = expand(chosen, known, catalog.tracks(), only=only or FRAMEWORKS)
    with tempfile.TemporaryDirectory() as place:
        given = inputs.obtain(work[0], seed=1, place=Path(place) / "inputs", notify=print)
        for trial in plan.trials:
            folder = Path(place) / trial.trial_id
            prepared = engine.prepare(known[trial.framework], print)
            assert prepared.python
            trial_file.write(
                folder,
                trial,
                given,
                mode="train",
                measure=suite.measure,
                cpus=engine.host["cpus"],
            )
            yield Start(
                trial=trial,
                python=prepared.python,
                environment=trial_file.read(folder)["environment"],
                folder=folder,
                data=given.data,
                staged=engine.staged(),
            )


def in_turns(
    ours: Callable[[int], float], theirs: Callable[[int], float], length: int, turns: int
) -> list[float]:
    """How many times as fast as theirs ours was, in each pair of turns, in changing order.

    Both turns of a pair have the same length, which varies from pair to pair: turns that are all
    alike may always meet what disturbs the machine at regular times.
    """
    found = []
    for turn in range(WARMUP_TURNS + turns):
        pair = (ours, theirs) if turn % 2 else (theirs, ours)
        this = max(1, round(length * random.uniform(1 - JITTER, 1 + JITTER)))
        durations = [run(this) for run in pair]
        ours_s, theirs_s = durations if turn % 2 else reversed(durations)
        found.append(theirs_s / ours_s)
    return found[WARMUP_TURNS:]


def report(what: str, found: list[float]) -> None:
    low, middle, high = statistics.quantiles(found, n=4) if len(found) > 1 else found * 3
    print(
        f"{what}: median {middle:.3f} of {len(found)}, "
        f"half of them within {low:.3f} to {high:.3f}, "
        f"range {min(found):.3f} to {max(found):.3f}",
        flush=True,
    )
