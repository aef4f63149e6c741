"""What Keras leaves to its user where TensorFlow is its backend."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ...protocol import Array
from ..tensorflow import device as tensorflow_device

prepare, describe = tensorflow_device.prepare, tensorflow_device.describe
memory = tensorflow_device.memory


def put(inputs: Array, labels: Array) -> tuple[Any, Any]:
    return tf.constant(inputs), tf.constant(labels)


class Trainer:
    """Runs a compiled model's training function, as `fit` does."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def step(self, batch: tuple[Any, Any]) -> dict[str, Any]:
        # From an iterator of tf.data, which `fit` makes, the function takes a batch inside of its
        # graph; from any other series, outside.
        logs: dict[str, Any] = self._model.train_function((batch,))
        return logs

    def settle(self) -> None:
        """Nothing: each step leaves all in the model's variables."""

    def synchronize(self) -> None:
        """Wait for the device; on the CPU every step is done when it returns."""
        tf.test.experimental.sync_devices()
