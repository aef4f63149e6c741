"""The protocol's conformance test, for a worker in any language.

The worker gets small trials on synthetic data. The test checks the schema and the order of its
events, that its standard output equals the file of events, and the shapes of its other files.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import ValidationError

from suite.datasets import obtain
from suite.datasets.formats import synthetic
from suite.datasets.inputs import Inputs
from suite.errors import EngineError, UsageError
from suite.manifests import catalog
from suite.manifests.workloads import Measure
from suite.parity.tensors import sketch_sizes
from suite.protocol import events, trial_file
from suite.protocol.events import Event, ProtocolError
from suite.protocol.expansion import expand
from suite.protocol.plan import Trial
from suite.protocol.schema import Mode, TrialFile
from suite.protocol.trial_file import Task
from suite.runner.support import unsupported_reason
from suite.worker import host
from suite.worker.proof import CLOSING

Kind = Literal["train", "parity", "infer", "answers"]  # of a trial of the test
SAMPLES = {"train": 200, "test": 50}  # not a multiple of the batch size: the last batch is padded
STEPS = 2
DEADLINE_S = 300.0
MEASURE = Measure(
    block_s=0.01,
    max_warmup_blocks=8,
    min_measure_s=0.05,
    max_measure_s=1,
    min_query_s=0.05,
    min_queries=100,
    max_query_s=1,
)
INFERENCE = {
    "mode": "infer",
    "scenario": "multi_stream",
    "batch_size": 8,
    "query_samples": SAMPLES["test"],
    "optimizer": None,
    "epochs": 0,
}
ORDER = {
    "train": (
        *("started", "built", "compiled", "warmup", "block", "epoch", "trained", "memory"),
        *("closing", "finished"),
    ),
    "parity": ("started", "built", "parity", "memory", "finished"),
    "infer": (
        *("started", "built", "first_inference", "warmed", "overhead", "inference", "answers"),
        *("memory", "finished"),
    ),
    "answers": ("started", "built", "answered", "memory", "finished"),
}


def check(command: list[str], *, framework: str = "pytorch") -> list[str]:
    """The violations by the worker that `command` starts; an empty list where there are none.

    A trial's folder is appended to `command`. `framework`, or `framework:variant`, goes into its
    trial.json; UsageError where it is unknown.
    """
    problems = []
    with tempfile.TemporaryDirectory(prefix="dlsuite-conformance-") as name:
        work_dir = Path(name)
        trial, trial_inputs = _workload(work_dir, framework)
        infers = replace(trial, workload=trial.workload.model_copy(update=INFERENCE))
        tasks: tuple[tuple[Kind, Trial, Mode], ...] = (
            ("train", trial, "train"),
            ("parity", trial, "parity"),
            ("infer", infers, "infer"),
            ("answers", infers, "parity"),
        )
        reasons = [unsupported_reason(each[1]) for each in tasks]
        if all(reasons):
            raise UsageError(
                f"{framework} cannot be tested: {reasons[0]}",
                hint="dlsuite conformance --framework with one that runs on a CPU",
            )
        tasks = tuple(each for each, reason in zip(tasks, reasons, strict=True) if reason is None)
        for kind, of_kind, mode in tasks:
            folder = work_dir / kind
            training = kind in ("train", "parity")
            task = Task(
                trial=of_kind,
                inputs=trial_inputs,
                mode=mode,
                measure=MEASURE,
                epochs=1 if training else 0,
                steps=STEPS,
                closing=kind == "train",
            )
            trial_file.write(folder, task, cpus=host.cpus())
            problems += [
                f"{kind}: {problem}" for problem in _try(command, folder, kind, trial_inputs)
            ]
        broken = _broken(command, work_dir / tasks[0][0], work_dir)
        problems += [f"broken trial: {each}" for each in broken]
    return problems


def trial_problems(trial: dict[str, Any]) -> list[str]:
    """The violations of the schema of trial.json (docs/reference/trial.schema.json)."""
    try:
        TrialFile.model_validate(trial)
    except ValidationError as error:
        return [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
    return []


def _workload(work_dir: Path, framework: str) -> tuple[Trial, Inputs]:
    """The trial of the test, and its inputs."""
    suite = catalog.suite("quick")
    plan = expand(suite, catalog.frameworks(), catalog.tracks(), only=[framework])
    trial = plan.trials[0]
    workload = trial.workload.model_copy(update={"dataset": synthetic.NAME})
    dataset = synthetic.fitted(workload).model_copy(update={"samples": SAMPLES})
    synthetic.write(dataset, work_dir / "data", seed=0)
    trial_inputs = obtain.make(
        workload, dataset, data=work_dir / "data", seed=0, folder=work_dir / "inputs"
    )
    return trial, trial_inputs


def _try(command: list[str], folder: Path, kind: Kind, trial_inputs: Inputs) -> Iterator[str]:
    """The violations of the worker in the trial in `folder`."""
    problems = trial_problems(trial_file.read(folder))
    yield from (f"trial.json itself: {problem}" for problem in problems)
    process = _start(command, folder)
    if process.returncode:
        yield f"exit code {process.returncode}"
    path = folder / "results" / "events.jsonl"
    try:
        reported = events.read(path)
    except ProtocolError as error:
        yield str(error)
        return
    if not path.exists() or process.stdout != path.read_text(encoding="utf-8"):
        yield "standard output differs from events.jsonl"
    yield from _order(reported, kind)
    yield from _files(folder / "results", trial_inputs, kind)


def _order(reported: list[Event], kind: Kind) -> Iterator[str]:
    """Events that are missing or in the wrong order."""
    kinds = [event["event"] for event in reported]
    missing = [each for each in ORDER[kind] if each not in kinds]
    if missing:
        yield f"no event {', '.join(missing)}"
        return
    first = ORDER[kind][:3]
    if tuple(kinds[: len(first)]) != first or kinds[-1] != "finished":
        yield f"events in the wrong order: {', '.join(dict.fromkeys(kinds))}"
    if "warmup" in kinds[kinds.index("block") :] if "block" in kinds else False:
        yield "a warm-up block after a measured one"
    stamps = [event["monotonic_ns"] for event in reported]
    if stamps != sorted(stamps):
        yield "monotonic_ns decreases"


def _files(results: Path, trial_inputs: Inputs, kind: Kind) -> Iterator[str]:
    """Files that are missing or have another shape than the protocol requires."""
    model = trial_inputs.architecture
    parameters, statistics = sketch_sizes(model.parameters()), sketch_sizes(model.statistics())
    batch = catalog.suite("quick").workloads[0].batch_size
    outcome: dict[str, tuple[int, ...]] = {
        "loss": (),
        "weights": (sum(parameters),),
        "statistics": (sum(statistics),),
    }
    others: dict[str, tuple[int, ...]] = {
        "logits": (batch, model.classes),
        "inference": (batch, model.classes),
        "gradients": (sum(parameters),),
    }
    if kind == "answers":
        shapes: dict[str, tuple[int, ...] | None] = {"inference": (SAMPLES["test"], model.classes)}
    elif kind == "infer":
        logits = _shape(results / CLOSING / "answers_logits.npy")
        shapes = {
            f"{CLOSING}/answers_samples": logits[:1] if logits else None,
            f"{CLOSING}/answers_logits": (logits[0] if logits else 0, model.classes),
        }
    elif kind == "parity":
        shapes = {
            f"step{step:02d}_{name}": shape
            for step in range(STEPS)
            for name, shape in (outcome | others).items()
        }
    else:
        shapes = {f"{CLOSING}/after_{name}": shape for name, shape in outcome.items()}
        shapes[f"{CLOSING}/weights"] = (model.parameter_count,)
        shapes[f"{CLOSING}/statistics"] = (sum(each.size for each in model.statistics()),)
    for name, shape in shapes.items():
        found = _shape(results / f"{name}.npy")
        if found != shape:
            yield f"{name}.npy has shape {found}, not {shape}"


def _shape(path: Path) -> tuple[int, ...] | None:
    """The shape of the array at `path`; None where there is none."""
    try:
        shape: tuple[int, ...] = np.load(path).shape
    except (OSError, ValueError, EOFError):
        return None
    return shape


def _broken(command: list[str], task: Path, work_dir: Path) -> Iterator[str]:
    """The violations in a trial with truncated weights, which must fail with an event."""
    folder, weights = work_dir / "broken", work_dir / "truncated.npy"
    (folder / "results").mkdir(parents=True)
    values = trial_file.read(task)
    np.save(weights, np.zeros(7, np.float32))
    values["paths"] |= {"weights": str(weights), "results": str(folder / "results")}
    (folder / trial_file.NAME).write_text(json.dumps(values), encoding="utf-8")
    process = _start(command, folder)
    if process.returncode == 0:
        yield "exit code 0, although the weights are truncated"
    try:
        reported = events.read(folder / "results" / "events.jsonl")
    except ProtocolError as error:
        yield str(error)
        return
    if not events.of(reported, "failed"):
        yield "no event failed, although the weights are truncated"


def _start(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """The finished worker; EngineError where it cannot be started or does not end in time."""
    trial = trial_file.read(folder)
    try:
        return subprocess.run(
            [*command, str(folder)],
            env=os.environ | trial["environment"],
            stdout=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            timeout=DEADLINE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"{command[0]}: {error}", hint="check the worker's command") from None
