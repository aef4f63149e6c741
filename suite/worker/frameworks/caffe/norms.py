"""The running statistics of Caffe's batch norms.

Caffe keeps a sum with a factor, s <- f s + x and n <- f n + 1, and uses s / n. With n = 1 / (1 - f)
from the start, s / n is the suite's running mean. Its variances are the unbiased ones of the
batches: k = m / (m - 1) times the biased ones, for m values.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...protocol import Array, Trial, Weights


class Norm:
    """The statistics of one batch norm, which start at 0 and 1."""

    def __init__(self, layer: dict[str, Any], net: Any, trial: Trial) -> None:
        self.name = layer["name"]
        self._kept = 1 - layer["momentum"]
        self._blobs = net.params[self.name]
        values = trial.rank_batch_size * math.prod(layer["input_shape"][1:])
        self._unbiased = values / (values - 1) if values > 1 else 1.0
        count = 1 / layer["momentum"]
        for blob, value in zip(self._blobs, (0, count, count)):
            blob.data[...] = value

    def statistics(self, steps: int) -> tuple[Array, Array]:
        """The running mean and the biased variance (channels,) after so many steps."""
        mean, variance, count = (blob.data.astype(np.float64) for blob in self._blobs)
        of_start = self._kept**steps  # the part of the initial variance, which has no correction
        corrected = of_start + (variance / count[0] - of_start) / self._unbiased
        return mean / count[0], corrected

    def keep(self) -> list[Array]:
        """A copy of the blobs, for `put_back`."""
        return [blob.data.copy() for blob in self._blobs]

    def put_back(self, kept: list[Array]) -> None:
        """Set the blobs to a copy that `keep` made."""
        for blob, values in zip(self._blobs, kept):
            blob.data[...] = values


def all_of(trial: Trial, net: Any) -> list[Norm]:
    """The batch norms of a network for training."""
    return [Norm(layer, net, trial) for layer in trial.leaves() if layer["kind"] == "batch_norm"]


def statistics(norms: list[Norm], steps: int) -> Weights:
    """All running statistics by name."""
    found: Weights = {}
    for norm in norms:
        found[f"{norm.name}.mean"], found[f"{norm.name}.variance"] = norm.statistics(steps)
    return found


def set_for_inference(trial: Trial, net: Any, values: Weights) -> None:
    """Set the running statistics of a network for inference."""
    for layer in trial.leaves():
        if layer["kind"] == "batch_norm":
            name = layer["name"]
            own = values[f"{name}.mean"], values[f"{name}.variance"], 1
            for blob, value in zip(net.params[f"{name}/inference"], own):
                blob.data[...] = value
