"""The neutral files of a workload, equal for every framework, and a worker's trial folder."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from suite import datasets
from suite.dataset_manifest import DatasetManifest
from suite.errors import DataError
from suite.formats import prepared, synthetic
from suite.manifest import Measure, Workload
from suite.models import MODELS
from suite.models.architecture import Architecture
from suite.models.layers import Parameter
from suite.paths import digest, sha256
from suite.plan import Trial
from suite.sources import Say
from suite.tracks import Conditions
from suite.worker.protocol import SCHEMA_VERSION

Mode = Literal["train", "parity", "limit"]
FLOAT32_BYTES = 4


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Initial weights, the order of the samples, the data; `sha256` is a digest of them all."""

    architecture: Architecture
    dataset: DatasetManifest
    data: Path
    images: Path | None = None  # the user's folder that the data was made from
    weights: Path
    order: Path
    sha256: str
    origin: str  # of the data

    def must_fit(self, workload: Workload, memory_bytes: int | None, workers: int) -> None:
        """DataError where the inputs of so many workers at once need more memory than there is."""
        needed = (
            workers
            * sum(self.dataset.samples.values())
            * math.prod(self.dataset.shape)
            * FLOAT32_BYTES
        )
        if workload.input == "host" and memory_bytes and needed > memory_bytes:
            at_once = f" of {workers} workers at once" if workers > 1 else ""
            raise DataError(
                f"{self.dataset.name} takes {needed / 2**30:,.1f} GiB in memory{at_once},"
                f" this machine has {memory_bytes / 2**30:,.1f} GiB",
                hint="give the workload `input: disk`",
            )


@dataclass(frozen=True, kw_only=True)
class Turns:
    """So many workers run at once and take turns by the files in `folder`."""

    folder: Path
    workers: int


def obtain(workload: Workload, *, seed: int, place: Path, say: Say) -> Inputs:
    """All that the workload needs, its dataset prepared or made; DataError where it cannot be."""
    dataset = datasets.of(workload)
    if dataset.format == "synthetic":
        data = place / "data"
        synthetic.write(dataset, data, seed)
    else:
        data = datasets.ready(dataset, say)
    if workload.input == "loader":
        _need_images(dataset, data)
    return make(workload, datasets.describe(dataset), data=data, seed=seed, place=place)


def _need_images(dataset: DatasetManifest, data: Path) -> None:
    """DataError where there are no photographs for a loader."""
    if dataset.format != "image_folder":
        raise DataError(
            f"{dataset.name} is no folder of photographs, which `input: loader` reads",
            hint="give the workload `input: disk` or `host`",
        )
    described = prepared.read(data)
    folder = described.source_folder if described else None
    if folder is None or not folder.is_dir():
        raise DataError(
            f"{folder}, from which {dataset.name} was prepared, is not there any more",
            hint=f"bring it back, or {datasets.command(dataset)}",
        )


def make(
    workload: Workload, dataset: DatasetManifest, *, data: Path, seed: int, place: Path
) -> Inputs:
    """Write weights.npy and order.npy (docs/protocol.md) into the folder `place`.

    `data` is a prepared dataset's folder.
    """
    architecture = MODELS[workload.model]()
    place.mkdir(parents=True, exist_ok=True)
    weights, order = place / "weights.npy", place / "order.npy"
    np.save(weights, architecture.initial_weights(seed))
    generator = np.random.default_rng(seed)
    samples = dataset.samples["train"]
    permutations = [generator.permutation(samples) for _ in range(max(1, workload.epochs))]
    np.save(order, np.stack(permutations).astype(np.int32))
    described = prepared.read(data)
    assert described is not None  # else nothing would be prepared there
    hashes = [sha256(weights), sha256(order), described.fingerprint]
    return Inputs(
        architecture=architecture,
        dataset=dataset,
        data=data,
        images=described.source_folder,
        weights=weights,
        order=order,
        sha256=digest(hashes),
        origin=described.origin,
    )


def _named(parameters: tuple[Parameter, ...]) -> list[dict[str, Any]]:
    return [{"name": each.name, "shape": each.shape} for each in parameters]


def _environment(given: Conditions, cpus: list[int]) -> dict[str, str]:
    # As NVML counts GPUs: telemetry's is then the framework's.
    environment = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", **given.environment}
    if given.threads == "cores":
        # MXNet, left alone, takes half the CPUs, as if each were two threads of one.
        environment["OMP_NUM_THREADS"] = str(len(cpus))
    return environment


def write_trial(
    folder: Path,
    trial: Trial,
    inputs: Inputs,
    *,
    mode: Mode,
    measure: Measure,
    cpus: list[int],
    turns: Turns | None = None,
    precision: str | None = None,
    repeat: int = 0,
    epochs: int = 0,
    steps: int = 0,
) -> None:
    """Make `folder` with its trial.json and an empty results/, all that a worker gets.

    `turns` are those of the workers that run at once with it.
    """
    work, architecture, given = trial.workload, inputs.architecture, trial.conditions
    optimizer = work.proof_optimizer if mode == "parity" else work.optimizer
    results = folder / "results"
    results.mkdir(parents=True)
    values: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "trial_id": trial.trial_id,
        "repeat": repeat,
        "framework": trial.framework,
        "variant": trial.variant,
        "track": trial.track,
        "mode": mode,
        "architecture": architecture.to_json(),
        "parameters": _named(architecture.parameters()),
        "statistics": _named(architecture.statistics()),
        "input": work.input,
        "batch_size": work.batch_size,
        "precision": precision or work.precision,
        "optimizer": optimizer.model_dump(),
        "device": trial.device,
        "cpus": cpus,
        "threads": len(cpus) if given.threads == "cores" else None,
        "tf32": given.tf32,
        "environment": _environment(given, cpus),
        "settings": given.settings,
        "seed": trial.seed,
        "rank": 0,
        "world_size": 1,
        "rendezvous": None,
        "epochs": epochs,
        "steps": steps,
        "measure": measure.model_dump(),
        "normalize": inputs.dataset.normalize.model_dump(),
        "paths": {
            "data": str(inputs.data),
            "weights": str(inputs.weights),
            "order": str(inputs.order),
            "results": str(results),
        },
    }
    if work.input == "loader":
        values["paths"]["images"] = str(inputs.images)
    if turns:
        values["paths"]["turns"] = str(turns.folder)
    (folder / "trial.json").write_text(json.dumps(values, indent=1), encoding="utf-8")


def make_turns(folder: Path, workers: int) -> Turns:
    """Make the files that workers lock to take turns (docs/protocol.md), or find them made."""
    folder.mkdir(exist_ok=True)
    for name in ("queue", "turn", "measuring"):
        (folder / name).touch()
    return Turns(folder=folder, workers=workers)
