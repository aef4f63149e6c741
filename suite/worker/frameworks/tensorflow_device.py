"""TensorFlow on a device with so many threads, in plain float32: for its own module and Keras's."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ..protocol import Trial


def prepare(trial: Trial) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(len(trial.cpus))
    tf.config.threading.set_inter_op_parallelism_threads(len(trial.cpus))
    gpus = tf.config.list_physical_devices("GPU")
    if trial.device == "cpu":
        tf.config.set_visible_devices([], "GPU")  # else it would compute there
    elif not gpus:
        raise RuntimeError("TensorFlow sees no GPU")
    else:
        for gpu in gpus:  # else it takes all the memory at once
            tf.config.experimental.set_memory_growth(gpu, True)
    tf.config.experimental.enable_tensor_float_32_execution(False)


def describe(trial: Trial) -> dict[str, Any]:
    threads = tf.config.threading.get_intra_op_parallelism_threads()
    gpus = tf.config.list_physical_devices("GPU") if trial.device != "cpu" else []
    kinds = [tf.config.experimental.get_device_details(gpu).get("device_name") for gpu in gpus]
    return {
        "name": trial.device,
        "threads": threads,
        "kind": kinds[0] if kinds else None,
        "tf32": tf.config.experimental.tensor_float_32_execution_enabled(),
        "preallocates": not all(map(tf.config.experimental.get_memory_growth, gpus)),
    }


def memory(trial: Trial) -> dict[str, Any]:
    """The peak of what tensors took; how much the allocator holds, TensorFlow does not tell."""
    if trial.device == "cpu":
        return {}
    return {"device_peak_bytes": tf.config.experimental.get_memory_info("GPU:0")["peak"]}
