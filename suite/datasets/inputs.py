"""The inputs of a workload, identical for all frameworks: initial weights, sample order, data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from suite.datasets import library
from suite.datasets.formats import prepared, synthetic
from suite.errors import DataError
from suite.manifests.datasets import DatasetManifest
from suite.manifests.workloads import Workload
from suite.messages import Notify
from suite.models import MODELS
from suite.models.architecture import Architecture
from suite.paths import digest, sha256

FLOAT32_BYTES = 4


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """The files of one workload; `sha256` is a digest of their contents."""

    architecture: Architecture
    dataset: DatasetManifest
    data: Path
    images: Path | None = None  # the user's folder that the data was prepared from
    weights: Path
    order: Path
    sha256: str
    origin: str  # where the data came from

    def must_fit(self, workload: Workload, memory_bytes: int | None, workers: int) -> None:
        """Raise DataError where `workers` simultaneous workers need more memory than available."""
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


def obtain(workload: Workload, *, seed: int, folder: Path, notify: Notify) -> Inputs:
    """Prepare or generate the dataset, and write the inputs into `folder`.

    Raise DataError where the dataset is unavailable or damaged.
    """
    dataset = library.of(workload)
    if dataset.format == "synthetic":
        data = folder / "data"
        synthetic.write(dataset, data, seed)
    else:
        data = library.ready(dataset, notify)
    if workload.input == "loader":
        _need_images(dataset, data)
    return make(workload, library.describe(dataset), data=data, seed=seed, folder=folder)


def _need_images(dataset: DatasetManifest, data: Path) -> None:
    """Raise DataError where the dataset has no photographs for a loader."""
    if dataset.format != "image_folder":
        raise DataError(
            f"`input: loader` needs a folder of photographs, {dataset.name} is not one",
            hint="give the workload `input: disk` or `host`",
        )
    described = prepared.read(data)
    source = described.source_folder if described else None
    if source is None or not source.is_dir():
        raise DataError(
            f"{source}, from which {dataset.name} was prepared, no longer exists",
            hint=f"restore it, or {library.command(dataset)}",
        )


def make(
    workload: Workload, dataset: DatasetManifest, *, data: Path, seed: int, folder: Path
) -> Inputs:
    """Write weights.npy and order.npy (docs/protocol.md) into `folder`.

    `data` is the folder of a prepared dataset.
    """
    architecture = MODELS[workload.model]()
    folder.mkdir(parents=True, exist_ok=True)
    weights, order = folder / "weights.npy", folder / "order.npy"
    np.save(weights, architecture.initial_weights(seed))
    generator = np.random.default_rng(seed)
    samples = dataset.samples["train"]
    permutations = [generator.permutation(samples) for _ in range(max(1, workload.epochs))]
    np.save(order, np.stack(permutations).astype(np.int32))
    described = prepared.read(data)
    assert described is not None  # `data` is the folder of a prepared dataset
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
