"""The parts of Keras's module that depend on the backend, for TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ...layouts import input_form
from ...protocol import Array, Trial
from ..tensorflow import device
from .layers import frozen

prepare, describe, memory = device.prepare, device.describe, device.memory


def put(inputs: Array, labels: Array) -> tuple[Any, Any]:
    return tf.constant(inputs), tf.constant(labels)


def predictor(model: Any, trial: Trial) -> Callable[[Array], Array]:
    """The model as a function of arrays: one graph."""
    logits = tf.function(frozen(model)).get_concrete_function(
        tf.TensorSpec(*input_form(trial, "NHWC"))
    )
    return lambda inputs: logits(tf.constant(inputs)).numpy()


def whole(gradient: Any) -> Any:
    """A gradient as a tensor: that of a lookup has only the rows that were looked up."""
    return tf.convert_to_tensor(gradient)


class Trainer:
    """Runs a compiled model's training function, as `fit` does."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def step(self, batch: tuple[Any, Any]) -> dict[str, Any]:
        # From an iterator of tf.data, as in `fit`, the function would take a batch inside its
        # graph; from any other iterable it takes it outside.
        logs: dict[str, Any] = self._model.train_function((batch,))
        return logs

    def settle(self) -> None:
        """Do nothing: the state is always in the model's variables."""

    def synchronize(self) -> None:
        """Wait for the device; on the CPU every step is done when it returns."""
        tf.test.experimental.sync_devices()
