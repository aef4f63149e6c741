"""The tolerance of a batch norm's running mean, which may be a small sum of large values."""

from __future__ import annotations

import math

import numpy as np

from suite.models.architecture import Architecture
from suite.models.layers import BatchNorm
from suite.parity.errors import Errors
from suite.parity.tensors import Tensors

EPSILON = float(np.finfo(np.float32).eps)


def tolerances(
    expected: list[Tensors], architecture: Architecture, batch_size: int, *, updates: int = 1
) -> Errors:
    """The relative error of each running mean that float32 can cause, for each training step.

    Added one after the other, n values cause an error of up to about sqrt(n) units in the last
    place. It is relative to the size of the values, their standard deviation: where they nearly
    cancel, as after a convolution of normalized images, their mean is much smaller. `expected` are
    the reference's tensors of each step, in which the means are updated `updates` times, each time
    by a batch of this size.
    """
    error = error_of_sum(architecture, batch_size)
    norms = [layer for layer in architecture.leaves() if isinstance(layer, BatchNorm)]
    return [
        {
            f"statistics {norm.name}.mean": error * _ratio(tensors, norm, steps * updates)
            for norm in norms
            if f"statistics {norm.name}.mean" in tensors
        }
        for steps, tensors in enumerate(expected, 1)
    ]


def error_of_sum(architecture: Architecture, batch_size: int) -> float:
    """The relative error of the longest sum of a batch norm, whose values are added in turn."""
    return math.sqrt(batch_size * architecture.batch_norm_positions) * EPSILON


def _ratio(tensors: Tensors, norm: BatchNorm, updates: int) -> float:
    """The standard deviations in the running mean, over the running mean itself (L2 norms)."""
    mean, variance = (tensors[f"statistics {norm.name}.{each}"] for each in ("mean", "variance"))
    initial = (1 - norm.momentum) ** updates  # the share of the initial mean 0 and variance 1
    variances = np.maximum(variance - initial, 0) / (1 - initial)
    return float((1 - initial) * np.sqrt(variances.sum()) / (np.linalg.norm(mean) or 1.0))
