"""JAX: the Flax NNX model as one function, compiled ahead of time with its weights as constants."""

from __future__ import annotations

from functools import reduce
from typing import Any

import jax
import numpy as np
from flax import nnx
from jax import numpy as jnp

from ...layouts import input_form, to_channels_last
from ...protocol import Array, Trial, Weights
from . import device as jax_device
from . import rounding
from .layers import Model, logits_of, paths
from .session import LAYOUT, device, memory, version

__all__ = ["LAYOUT", "Predictor", "device", "memory", "version"]


class Predictor:
    """A model in its inference form."""

    def __init__(self, trial: Trial, weights: Weights, statistics: Weights) -> None:
        if trial.variant == "scan":
            raise NotImplementedError("jax:scan differs from jax:jit only in training")
        jax_device.prepare(trial)
        model = Model(trial)
        model.eval()
        values = to_channels_last(trial, weights)
        if trial.simulated_bits:
            values = rounding.with_rounded_products(trial, values)
        _load(model, trial, {**values, **statistics})

        def logits(inputs: Any) -> Any:
            # The weights are not arguments but constants, so that XLA folds what depends on them
            # alone: the factor and the shift of each batch norm.
            own = nnx.clone(model)  # Flax lets a trace change only its own state, as an LSTM does
            return logits_of(own, trial, inputs)

        inputs = jax.ShapeDtypeStruct(*input_form(trial, LAYOUT))
        self._logits = jax.jit(logits).lower(inputs).compile()

    def predict(self, inputs: Array) -> Array:
        """The logits (batch_size, classes) of one batch, from and to host memory."""
        return np.asarray(self._logits(inputs))


def _load(model: Model, trial: Trial, values: Weights) -> None:
    """Set all parameters and statistics in the trial's dtype; Flax makes statistics in float32."""
    for name, path in paths(trial).items():
        variable: Any = reduce(getattr, path, model)
        variable.set_value(jnp.array(values[name], trial.dtype))
