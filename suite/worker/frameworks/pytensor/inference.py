"""PyTensor for inference: a graph compiled by Numba, whose tensors are constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt

from ...protocol import Array, Trial, Weights
from . import device as pytensor_device
from .layers import Graph
from .session import LAYOUT, device, memory, version

__all__ = ["LAYOUT", "Predictor", "device", "memory", "version"]


class Predictor:
    def __init__(self, trial: Trial, weights: Weights, statistics: Weights) -> None:
        pytensor_device.prepare(trial)
        # The compiler then computes the factor and the summand of each batch norm in advance.
        constants = {
            name: pt.constant(values.astype(trial.dtype), name)
            for name, values in (weights | statistics).items()
        }
        graph = Graph(trial, constants, training=False)
        self._function: Any = pytensor.function(
            [graph.inputs], graph.logits, mode="NUMBA", trust_input=True
        )

    def predict(self, inputs: Array) -> Array:
        return np.ascontiguousarray(self._function(inputs))
