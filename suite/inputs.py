"""The neutral files of a workload, equal for every framework."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from suite import datasets
from suite.dataset_manifest import DatasetManifest
from suite.errors import DataError
from suite.formats import prepared, synthetic
from suite.manifest import Workload
from suite.models import MODELS
from suite.models.architecture import Architecture
from suite.paths import digest, sha256
from suite.sources import Say

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
