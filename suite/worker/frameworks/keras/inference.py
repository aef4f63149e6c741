"""Keras: the functional model as one compiled function; on PyTorch, the model called eagerly.

Keras's guides call the model instead of `predict` where the inputs fit in one batch. `predict` and
`predict_on_batch` would prepare their function and, on JAX, collect all variables in each call.
"""

from __future__ import annotations

from ...layouts import to_channels_last
from ...protocol import Array, Trial, Weights
from .session import LAYOUT, SETTINGS, assign, backend, build, device, memory, version

__all__ = ["LAYOUT", "SETTINGS", "Predictor", "device", "memory", "version"]


class Predictor:
    """A model in its inference form."""

    def __init__(self, trial: Trial, weights: Weights, statistics: Weights) -> None:
        if trial.dtype == "float64":
            raise NotImplementedError("Keras is not a reference framework")
        model, variables = build(trial)
        for name, values in {**to_channels_last(trial, weights), **statistics}.items():
            assign(variables[name], values)
        self._logits = backend.predictor(model, trial)

    def predict(self, inputs: Array) -> Array:
        """The logits (batch_size, classes) of one batch, from and to host memory."""
        logits: Array = self._logits(inputs)
        return logits
