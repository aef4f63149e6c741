"""The parts of Keras's module that depend on the backend, for JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from ...layouts import input_form
from ...protocol import Array, Trial
from ..jax import device
from .layers import frozen

STATE = (
    "trainable_variables",
    "non_trainable_variables",
    "optimizer_variables",
    "metrics_variables",
)


prepare, describe, memory = device.prepare, device.describe, device.memory


def put(inputs: Array, labels: Array) -> Any:
    return jax.device_put((inputs, labels))


def predictor(model: Any, trial: Trial) -> Callable[[Array], Array]:
    """The model as a function of arrays, compiled ahead of time."""
    inputs = jax.ShapeDtypeStruct(*input_form(trial, "NHWC"))
    logits = jax.jit(frozen(model)).lower(inputs).compile()
    return lambda inputs: np.asarray(logits(inputs))


def whole(gradient: Any) -> Any:
    """A gradient as a tensor, which it is."""
    return gradient


class Trainer:
    """Runs a compiled model's training function, as `fit` does.

    The state is taken out of the model's variables once, and passed from step to step until
    `settle` puts it back.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._state: Any = None

    def step(self, batch: Any) -> dict[str, Any]:
        if self._state is None:
            parts = dict.fromkeys(STATE, True)
            self._state = self._model._get_jax_state(**parts, purge_model_variables=True)
        logs, self._state = self._model.train_function(self._state, iter((batch,)))
        return logs

    def settle(self) -> None:
        """Put the state back into the model's variables."""
        if self._state is not None:
            self._model._jax_state = dict(zip(STATE, self._state))
            self._model._jax_state_synced = False
            self._model.jax_state_sync()
            self._model._jax_state = self._state = None

    def synchronize(self) -> None:
        jax.block_until_ready(self._state)
