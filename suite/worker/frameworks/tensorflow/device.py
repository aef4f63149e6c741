"""TensorFlow on a device with a trial's runtime settings; Keras uses it too."""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf
from tensorflow.python.util import _pywrap_util_port

from ...protocol import Trial


def prepare(trial: Trial) -> None:
    """Select the device and apply the settings."""
    if trial.threads is not None:
        tf.config.threading.set_intra_op_parallelism_threads(trial.threads)
        tf.config.threading.set_inter_op_parallelism_threads(trial.threads)
    gpus = tf.config.list_physical_devices("GPU")
    if trial.device == "cpu":
        tf.config.set_visible_devices([], "GPU")  # otherwise TensorFlow computes on the GPU
    elif not gpus:
        raise RuntimeError("TensorFlow sees no GPU")
    if trial.tf32 is not None:
        tf.config.experimental.enable_tensor_float_32_execution(trial.tf32)


def describe(trial: Trial) -> dict[str, Any]:
    """The settings in force, read back from TensorFlow; unknown values are null."""
    # 0 where TensorFlow chooses the number itself
    threads = tf.config.threading.get_intra_op_parallelism_threads() or None
    gpus = tf.config.list_physical_devices("GPU") if trial.device != "cpu" else []
    kinds = [tf.config.experimental.get_device_details(gpu).get("device_name") for gpu in gpus]
    return {
        "name": trial.device,
        "threads": threads,
        "kind": kinds[0] if kinds else None,
        "tf32": bool(gpus) and tf.config.experimental.tensor_float_32_execution_enabled(),
        "preallocates": bool(gpus) and os.environ.get("TF_FORCE_GPU_ALLOW_GROWTH") != "true",
        "policy": {
            "tensor_float_32": tf.config.experimental.tensor_float_32_execution_enabled(),
            "inter_op_threads": tf.config.threading.get_inter_op_parallelism_threads(),
            "jit": str(tf.config.optimizer.get_jit()),
            # No public function reports it; the default depends on the CPU.
            "onednn": _pywrap_util_port.IsMklEnabled(),
            # What multiplies the operands that bf16_mixed rounds (session.lowered).
            "products": "float32" if trial.device == "cpu" or not trial.mixed else "bfloat16",
        },
    }


def memory(trial: Trial) -> dict[str, Any]:
    """The peak of bytes in tensors; TensorFlow does not report the bytes reserved for them."""
    if trial.device == "cpu":
        return {}
    return {"device_peak_bytes": tf.config.experimental.get_memory_info("GPU:0")["peak"]}
