"""Theano for inference: a compiled function, whose tensors are constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import theano.tensor as tt

from ...protocol import Array, Trial, Weights
from . import device as theano_device
from .layers import Graph
from .session import LAYOUT, compiled, device, memory, version

__all__ = ["LAYOUT", "Predictor", "device", "memory", "version"]


class Predictor:
    def __init__(self, trial: Trial, weights: Weights, statistics: Weights) -> None:
        theano_device.prepare(trial)
        # The compiler then computes the factor and the summand of each batch norm in advance.
        constants = {
            name: tt.constant(values.astype(trial.dtype), name)
            for name, values in (weights | statistics).items()
        }
        graph = Graph(trial, constants, training=False)
        self._function: Any = compiled([graph.inputs], graph.logits, {})

    def predict(self, inputs: Array) -> Array:
        return np.ascontiguousarray(self._function(inputs))
