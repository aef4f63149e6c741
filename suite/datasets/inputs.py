"""The inputs of a workload, identical for all frameworks: initial weights, sample order, data."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

from suite.errors import DataError
from suite.manifests.datasets import DatasetManifest
from suite.manifests.workloads import Workload
from suite.models.architecture import Architecture

FLOAT32_BYTES = 4


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """The files of one workload; `sha256` is a digest of their contents."""

    architecture: Architecture
    dataset: DatasetManifest
    data: Path
    images: Path | None = None  # the user's folder that the data was prepared from
    weights: Path
    # Where the averages of the weights start, if there are any: at the weights, or in a saved state
    # at those of that state.
    averages: Path | None = None
    statistics: Path  # running means and variances of batch norms, for inference
    order: Path
    sha256: str
    origin: str  # where the data came from

    def starting_from(self, weights: Path) -> Inputs:
        """The inputs with other weights; averages that start at the weights start at these."""
        averages = weights if self.averages == self.weights else self.averages
        return replace(self, weights=weights, averages=averages)

    def must_fit(self, workload: Workload, memory_bytes: int | None, workers: int) -> None:
        """Raise DataError where `workers` simultaneous workers need more memory than available."""
        samples = workload.query_samples or sum(self.dataset.samples.values())
        needed = workers * samples * math.prod(self.dataset.shape) * FLOAT32_BYTES
        if workload.input == "host" and memory_bytes and needed > memory_bytes:
            at_once = f" of {workers} workers at once" if workers > 1 else ""
            raise DataError(
                f"{self.dataset.name} takes {needed / 2**30:,.1f} GiB in memory{at_once},"
                f" this machine has {memory_bytes / 2**30:,.1f} GiB",
                hint="give the workload `input: disk`",
            )
