"""What Keras leaves to its user where TensorFlow is its backend."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ..protocol import Array, Trial


def device(trial: Trial) -> dict[str, Any]:
    gpus = tf.config.list_physical_devices("GPU") if trial.device != "cpu" else []
    kinds = [tf.config.experimental.get_device_details(gpu).get("device_name") for gpu in gpus]
    threads = tf.config.threading.get_intra_op_parallelism_threads()
    return {"threads": threads, "kind": kinds[0] if kinds else None}


def prepare(trial: Trial) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(len(trial.cpus))
    tf.config.threading.set_inter_op_parallelism_threads(len(trial.cpus))
    if trial.device == "cpu":
        tf.config.set_visible_devices([], "GPU")  # else it would compute there
    elif not tf.config.list_physical_devices("GPU"):
        raise RuntimeError("TensorFlow sees no GPU")
    tf.config.experimental.enable_tensor_float_32_execution(False)


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
