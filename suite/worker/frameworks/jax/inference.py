"""JAX: the Flax NNX model as one function, compiled ahead of time with its weights as constants.

Batch norms are folded into the convolution before them by the suite: neither Flax nor XLA does so.
"""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from typing import Any

import jax
import numpy as np
from flax import nnx
from jax import numpy as jnp

from ...layouts import input_form, to_channels_last
from ...protocol import Array, Trial, Weights
from . import device as jax_device
from . import rounding
from .layers import PREFIX, Model, build, logits_of, paths
from .session import LAYOUT, device, memory, version

__all__ = ["LAYOUT", "Predictor", "device", "memory", "version"]


class Predictor:
    """A model in its inference form."""

    def __init__(self, trial: Trial, weights: Weights, statistics: Weights) -> None:
        if trial.variant == "scan":
            raise NotImplementedError("jax:scan differs from jax:jit only in training")
        jax_device.prepare(trial)
        model = build(trial)
        model.eval()
        values = to_channels_last(trial, weights)
        if trial.simulated_bits:
            values = rounding.with_rounded_products(trial, values)
        _load(model, trial, {**values, **statistics})
        if not trial.simulated_bits:
            _fold(model, trial.layers)

        def logits(inputs: Any) -> Any:
            # The weights are not arguments but constants, so that XLA can compute what depends on
            # them alone.
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


def _fold(model: Model, layers: list[dict[str, Any]]) -> None:
    """Fold each batch norm into the convolution before it, in a series and in its branches."""
    for before, layer in pairwise([{"kind": "inputs"}, *layers]):
        for branch in layer.get("branches", []):
            _fold(model, branch)
        if (before["kind"], layer["kind"]) == ("conv2d", "batch_norm"):
            convolution, norm = (getattr(model, PREFIX + each["name"]) for each in (before, layer))
            # In numpy: JAX would compile these operations for each number of channels.
            scale, bias, mean, variance = (
                np.asarray(each[...]) for each in (norm.scale, norm.bias, norm.mean, norm.var)
            )
            factor = scale / np.sqrt(variance + norm.epsilon)
            if convolution.bias is not None:
                mean = mean - np.asarray(convolution.bias[...])
            convolution.kernel.set_value(jnp.asarray(np.asarray(convolution.kernel[...]) * factor))
            convolution.bias = nnx.Param(jnp.asarray(bias - mean * factor))
            convolution.use_bias = True
            setattr(model, PREFIX + layer["name"], lambda values: values)
