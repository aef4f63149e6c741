"""Processes that do steps on request, started for a trial of the suite, and timed alternately."""

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

from suite.datasets import obtain
from suite.engines.gpus import Gpus
from suite.engines.options import EngineOptions
from suite.engines.venv.engine import VenvEngine
from suite.manifests import catalog, model_files
from suite.manifests.suites import SuiteManifest
from suite.manifests.workloads import Measure, SuiteWorkload
from suite.protocol import trial_file
from suite.protocol.expansion import expand
from suite.protocol.plan import Trial
from suite.protocol.trial_file import Task
from suite.worker.interleaving import JITTER

BLOCK_S = Measure().block_s
CALIBRATION_S = 1.0
# As in common.py.
QUERY_SAMPLES = 256
MICRO_BATCHES, EMA_DECAY = 4, 0.999
WARMUP_PAIRS = 3  # of slices, before those that count
FRAMEWORKS = ("pytorch", "tensorflow", "jax", "mxnet")
GPU_BATCHES = {"resnet50": 256}  # of other models that of the zoo
HERE = Path(__file__).parent


class Contender:
    """A process that does steps on request and reports their duration."""

    def __init__(self, command: list[str | Path], environment: dict[str, str]) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115, it lives as long as the process
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
        )
        self.pid = self._process.pid

    def steps(self, count: int) -> float:
        """Do `count` steps; return seconds. Raise SystemExit with its last output where it died."""
        assert self._process.stdin and self._process.stdout
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{count}\n")
            self._process.stdin.flush()
        reply = self._process.stdout.readline()
        if not reply:
            self._stderr.seek(0)
            lines = self._stderr.read().decode(errors="replace").splitlines()[-3:]
            died = f"died: {' '.join(map(str, self._process.args))}"
            raise SystemExit("\n".join([died, *lines]))
        return float(reply)

    def step_s(self) -> float:
        """The duration of a step after the first ones."""
        count = max(2, round(2 * CALIBRATION_S / self.steps(2)))
        return self.steps(count) / count

    def end(self) -> None:
        self._process.communicate()


@dataclass(frozen=True, kw_only=True)
class Start:
    """A trial of the suite with everything that a process needs for it."""

    trial: Trial
    python: Path
    environment: dict[str, str]  # of a worker, whose code is in its PYTHONPATH
    folder: Path  # with its trial.json
    data: Path

    def suite(self) -> Contender:
        """A process that does the suite's own steps, or calls of inference."""
        script = "suite_call.py" if self.trial.workload.mode == "infer" else "suite_step.py"
        command: list[str | Path] = [self.python, HERE / script, self.folder]
        return Contender(command, self.environment)


def starts(
    model: str,
    only: list[str],
    precision: str = "float32",
    *,
    infer: bool = False,
    device: str = "cpu",
    accumulated: bool = False,
) -> Iterator[Start]:
    """The zoo's workload of `model` in each framework; `infer`: its inference of one image.

    `accumulated`: its steps accumulate micro-batches and average the weights, as in common.py.

    A model that the zoo lacks is imported: it is in MODEL.model.json in the current folder.
    DLSUITE_PYTHON may name the frameworks' Pythons, as for `dlsuite run`.
    """
    suite, known = catalog.suite("zoo"), catalog.frameworks()
    workload = _workload(suite, model)
    pythons = tuple(os.environ.get("DLSUITE_PYTHON", "").split())
    gpus = None if device == "cpu" else Gpus(count=1)
    engine = VenvEngine(gpus=gpus, pythons=EngineOptions(pythons=pythons).interpreters())
    changes: dict[str, object] = {"precision": precision}
    if accumulated:
        assert workload.optimizer
        averaged = workload.optimizer.model_copy(update={"ema_decay": EMA_DECAY})
        changes |= {"accumulate": MICRO_BATCHES, "optimizer": averaged}
    if gpus:
        changes["input"] = "device"
        workload = workload.model_copy(
            update={"batch_size": GPU_BATCHES.get(model, workload.batch_size)}
        )
    with tempfile.TemporaryDirectory() as work_dir:
        if infer:
            workload = workload.model_copy(update={"mode": "infer"})
        its_inputs = obtain.obtain(workload, seed=1, folder=Path(work_dir) / "inputs", notify=print)
        if infer:
            samples = min(QUERY_SAMPLES, its_inputs.dataset.samples["test"])
            changes = {"batch_size": 1, "optimizer": None, "epochs": 0}
            changes |= {"scenario": "single_stream", "query_samples": samples}
        changed = workload.model_copy(update=changes)
        chosen = suite.model_copy(update={"workloads": (changed,)})
        plan = expand(chosen, known, catalog.tracks(), only=only or FRAMEWORKS, devices=[device])
        for trial in plan.trials:
            folder = Path(work_dir) / trial.trial_id
            prepared = engine.prepare(known[trial.framework], print)
            assert prepared.python
            mode = trial.workload.mode
            task = Task(trial=trial, inputs=its_inputs, mode=mode, measure=suite.measure)
            trial_file.write(folder, task, cpus=engine.host["cpus"])
            yield Start(
                trial=trial,
                python=prepared.python,
                environment=engine.environment(folder),
                folder=folder,
                data=its_inputs.data,
            )


def _workload(suite: SuiteManifest, model: str) -> SuiteWorkload:
    imported = Path(f"{model}{model_files.SUFFIX}")
    if imported.is_file():
        own = suite.default_workload
        assert own
        return SuiteWorkload(model=model_files.register(imported), **dict(own))
    (workload,) = (each for each in suite.workloads if each.model == model)
    return workload


def alternate(
    ours: Callable[[int], float], theirs: Callable[[int], float], length: int, pairs: int
) -> list[float]:
    """The speed of `ours` over that of `theirs` in each pair of slices, in alternating order.

    Both slices of a pair have the same length, which varies from pair to pair: with equal lengths
    a periodic disturbance could always hit the same side.
    """
    found = []
    for number in range(WARMUP_PAIRS + pairs):
        pair = (ours, theirs) if number % 2 else (theirs, ours)
        this_length = max(1, round(length * random.uniform(*JITTER)))
        durations = [run(this_length) for run in pair]
        ours_s, theirs_s = durations if number % 2 else reversed(durations)
        found.append(theirs_s / ours_s)
    return found[WARMUP_PAIRS:]


def report(title: str, found: list[float]) -> None:
    """Print the median, the quartiles and the range of the ratios."""
    low, middle, high = statistics.quantiles(found, n=4) if len(found) > 1 else found * 3
    print(
        f"{title}: median {middle:.3f} of {len(found)}, "
        f"half of them within {low:.3f} to {high:.3f}, "
        f"range {min(found):.3f} to {max(found):.3f}",
        flush=True,
    )
