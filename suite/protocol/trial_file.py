"""The folder that a worker gets: trial.json and an empty results/ (docs/reference/protocol.md)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from suite.datasets.inputs import Inputs
from suite.errors import UsageError
from suite.manifests.devices import KINDS, Product
from suite.manifests.workloads import Measure
from suite.models.layer import Parameter
from suite.protocol.plan import Trial
from suite.protocol.schema import Mode, TrialFile
from suite.worker.protocol import SCHEMA_VERSION

NAME = "trial.json"
# Two workers of a proof run at once, each with a thread for every core. While OpenMP's threads wait
# for each other, they must then not keep the cores from those of the other worker.
PROOFS = ("parity", "replay")


@dataclass(frozen=True, kw_only=True)
class Interleaving:
    """`workers` workers run at once; the lock files in `folder` let one compute at a time."""

    folder: Path
    workers: int


@dataclass(frozen=True, kw_only=True)
class Start:
    """The state at the end of a timed run, from which mode replay does `steps` steps.

    In mode parity, perturbed weights.
    """

    state: Path  # the folder that the closing proof wrote, or that of the perturbed weights
    first_step: int
    steps: int
    draws: int = 1  # how often, each time with other dropout masks or perturbed weights


@dataclass(frozen=True, kw_only=True)
class Task:
    """One worker's task. In mode replay, `inputs.weights` are those of the state in `start`."""

    trial: Trial
    inputs: Inputs
    mode: Mode
    measure: Measure = field(default_factory=Measure)
    precision: str | None = None  # None: the workload's
    repeat: int = 0
    epochs: int = 0
    steps: int = 0
    closing: bool = False
    interleaving: Interleaving | None = None
    start: Start | None = None
    precisions: tuple[Product, ...] = ()  # mode peak


def make_interleaving(folder: Path, workers: int) -> Interleaving:
    """Make the lock files by which workers alternate, or find them made.

    docs/reference/protocol.md describes them.
    """
    folder.mkdir(exist_ok=True)
    for name in ("queue", "turn", "measuring"):
        (folder / name).touch()
    return Interleaving(folder=folder, workers=workers)


@dataclass(frozen=True, kw_only=True)
class Node:
    """One of the machines on which a trial's ranks run."""

    number: int = 0
    rendezvous: str | None = None  # host:port of rank 0; None: from a launcher's variables
    # Whether all nodes are parts of one machine.
    shared: bool = True


def cpus_of(trial: Trial, node: Node, cpus: list[int]) -> list[int]:
    """The CPUs of the ranks on a node, of which `cpus` has one for each physical core.

    Raise UsageError where there are fewer cores than ranks.
    """
    devices = trial.devices
    parts = devices.parts_of_machine(trial.cpu_parts, separate=not node.shared)
    size = len(cpus) // parts * devices.per_node
    if size == 0:
        raise UsageError(
            f"{parts} ranks need {parts} cores, this machine has {len(cpus)}",
            hint=f"--devices cpu:{len(cpus)}" if devices.kind == "cpu" else f"--gpus {len(cpus)}",
        )
    first = node.number * size if node.shared else 0
    return cpus[first : first + size]


def write(folder: Path, task: Task, *, cpus: list[int], node: Node = Node()) -> None:
    """Make `folder`, which must not exist, with everything that a worker on `node` gets.

    `cpus` are those of its ranks.
    """
    trial, inputs, start = task.trial, task.inputs, task.start
    devices = trial.devices
    workload = trial.workload
    optimizer = workload.proof_optimizer if task.mode == "parity" else workload.optimizer
    values: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "trial_id": trial.trial_id,
        "repeat": task.repeat,
        "framework": trial.framework,
        "variant": trial.variant,
        "track": trial.track,
        "mode": task.mode,
        **_model(inputs),
        "input": workload.input,
        "batch_size": workload.batch_size,
        "accumulate": workload.accumulate,
        "scenario": workload.scenario,
        "query_samples": workload.query_samples,
        "latency_bound_s": workload.latency_bound_s,
        "precision": task.precision or workload.precision,
        "loss": workload.loss,
        "label_smoothing": workload.label_smoothing,
        "class_weights": workload.class_weights,
        "optimizer": optimizer.model_dump() if optimizer else None,
        "device": KINDS[devices.kind].first,
        "cpus": cpus,
        **_runtime(task, len(cpus) // devices.per_node),
        "seed": trial.seed,
        "world_size": devices.ranks,
        "nodes": devices.nodes,
        "node": node.number,
        "rendezvous": node.rendezvous,
        "slices": trial.slices,
        "epochs": task.epochs,
        "steps": start.steps if start else task.steps,
        "closing": task.closing,
        "first_step": start.first_step if start else 0,
        "draws": start.draws if start else 1,
        "precisions": list(task.precisions),
        "measure": task.measure.model_dump(),
        "normalize": inputs.dataset.normalize.model_dump(),
        "paths": _paths(folder, task),
    }
    TrialFile.model_validate(values)
    (folder / "results").mkdir(parents=True)
    (folder / NAME).write_text(json.dumps(values, indent=1), encoding="utf-8")


def read(folder: Path) -> dict[str, Any]:
    """The fields of a folder's trial.json."""
    values: dict[str, Any] = json.loads((folder / NAME).read_text(encoding="utf-8"))
    return values


def _model(inputs: Inputs) -> dict[str, Any]:
    model = inputs.architecture
    return {
        "architecture": model.to_json(),
        "parameters": _named(model.parameters()),
        "statistics": _named(model.statistics()),
    }


def _named(parameters: tuple[Parameter, ...]) -> list[dict[str, Any]]:
    return [{"name": each.name, "shape": each.shape} for each in parameters]


def _runtime(task: Task, cores: int) -> dict[str, Any]:
    """The settings of a rank that has so many cores."""
    runtime = task.trial.runtime
    # NVML numbers GPUs in PCI order: with this variable the framework does so too.
    environment = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", **runtime.environment}
    if runtime.threads == "cores":
        # By default MXNet uses half of the CPUs, as if each core had two hardware threads.
        environment["OMP_NUM_THREADS"] = str(cores)
    if task.mode in PROOFS:
        environment["OMP_WAIT_POLICY"] = "passive"
    return {
        "threads": cores if runtime.threads == "cores" else None,
        "tf32": runtime.tf32,
        "environment": environment,
        "settings": runtime.settings,
    }


def _paths(folder: Path, task: Task) -> dict[str, str]:
    inputs = task.inputs
    paths = {
        "data": inputs.data,
        "weights": inputs.weights,
        "statistics": inputs.statistics,
        "order": inputs.order,
        "results": folder / "results",
    }
    if task.trial.workload.input == "loader" and inputs.images:
        paths["images"] = inputs.images
    if task.interleaving:
        paths["interleaving"] = task.interleaving.folder
    if task.start:
        paths["state"] = task.start.state
    return {name: str(path) for name, path in paths.items()}
