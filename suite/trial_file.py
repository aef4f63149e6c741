"""What a worker gets: a folder with trial.json and an empty results/ (docs/protocol.md)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from suite.inputs import Inputs
from suite.manifest import Measure
from suite.models.layers import Parameter
from suite.plan import Trial
from suite.tracks import Conditions
from suite.worker.protocol import SCHEMA_VERSION

Mode = Literal["train", "parity", "replay", "limit"]
NAME = "trial.json"


@dataclass(frozen=True, kw_only=True)
class Turns:
    """So many workers run at once and take turns by the files in `folder`."""

    folder: Path
    workers: int


@dataclass(frozen=True, kw_only=True)
class Start:
    """The state at the end of a timed run, from which mode replay does `steps` steps."""

    state: Path  # the folder that the closing proof wrote
    first_step: int
    steps: int
    draws: int = 1  # times, with other dropout masks each time


def make_turns(folder: Path, workers: int) -> Turns:
    """Make the files that workers lock to take turns (docs/protocol.md), or find them made."""
    folder.mkdir(exist_ok=True)
    for name in ("queue", "turn", "measuring"):
        (folder / name).touch()
    return Turns(folder=folder, workers=workers)


def write(
    folder: Path,
    trial: Trial,
    given: Inputs,
    *,
    mode: Mode,
    measure: Measure,
    cpus: list[int],
    turns: Turns | None = None,
    precision: str | None = None,
    repeat: int = 0,
    epochs: int = 0,
    steps: int = 0,
    closing: bool = False,
    start: Start | None = None,
) -> None:
    """Make `folder`, which must not be there, with all that a worker gets.

    `turns` are those of the workers that run at once with it; `start` is for mode replay, in which
    `given.weights` are those of that state.
    """
    work = trial.workload
    optimizer = work.proof_optimizer if mode == "parity" else work.optimizer
    values: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "trial_id": trial.trial_id,
        "repeat": repeat,
        "framework": trial.framework,
        "variant": trial.variant,
        "track": trial.track,
        "mode": mode,
        **_model(given),
        "input": work.input,
        "batch_size": work.batch_size,
        "precision": precision or work.precision,
        "optimizer": optimizer.model_dump(),
        "device": trial.device,
        "cpus": cpus,
        **_conditions(trial.conditions, cpus),
        "seed": trial.seed,
        "rank": 0,
        "world_size": 1,
        "rendezvous": None,
        "epochs": epochs,
        "steps": start.steps if start else steps,
        "closing": closing,
        "first_step": start.first_step if start else 0,
        "draws": start.draws if start else 1,
        "measure": measure.model_dump(),
        "normalize": given.dataset.normalize.model_dump(),
        "paths": _paths(given, folder, turns, start, loads=work.input == "loader"),
    }
    (folder / "results").mkdir(parents=True)
    (folder / NAME).write_text(json.dumps(values, indent=1), encoding="utf-8")


def read(folder: Path) -> dict[str, Any]:
    """The fields of a folder's trial.json."""
    values: dict[str, Any] = json.loads((folder / NAME).read_text(encoding="utf-8"))
    return values


def _model(given: Inputs) -> dict[str, Any]:
    model = given.architecture
    return {
        "architecture": model.to_json(),
        "parameters": _named(model.parameters()),
        "statistics": _named(model.statistics()),
    }


def _named(parameters: tuple[Parameter, ...]) -> list[dict[str, Any]]:
    return [{"name": each.name, "shape": each.shape} for each in parameters]


def _conditions(given: Conditions, cpus: list[int]) -> dict[str, Any]:
    # As NVML counts GPUs: telemetry's is then the framework's.
    environment = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", **given.environment}
    if given.threads == "cores":
        # MXNet, left alone, takes half the CPUs, as if each were two threads of one.
        environment["OMP_NUM_THREADS"] = str(len(cpus))
    return {
        "threads": len(cpus) if given.threads == "cores" else None,
        "tf32": given.tf32,
        "environment": environment,
        "settings": given.settings,
    }


def _paths(
    given: Inputs, folder: Path, turns: Turns | None, start: Start | None, *, loads: bool
) -> dict[str, str]:
    paths = {
        "data": given.data,
        "weights": given.weights,
        "order": given.order,
        "results": folder / "results",
    }
    if loads and given.images:
        paths["images"] = given.images
    if turns:
        paths["turns"] = turns.folder
    if start:
        paths["state"] = start.state
    return {name: str(path) for name, path in paths.items()}
