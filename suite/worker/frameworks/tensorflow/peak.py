"""TensorFlow's matrix products and copies, for the device's limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import tensorflow as tf

from ...protocol import Trial
from . import device as tensorflow_device


def operations(
    trial: Trial, precisions: Sequence[str], size: int, values: int
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Each by name: products of matrices (size, size), a copy of so many float32 values."""
    tensorflow_device.prepare(trial)
    for name in precisions:
        dtype = tf.bfloat16 if name == "bfloat16" else tf.float32
        a, b = (tf.cast(tf.random.uniform((size, size)), dtype) for _ in range(2))
        tf.config.experimental.enable_tensor_float_32_execution(name == "tf32")
        yield f"matmul_{name}", partial(tf.linalg.matmul, a, b)
    source = tf.random.uniform((values,))
    yield "copy", lambda: tf.raw_ops.DeepCopy(x=source)


def synchronize() -> None:
    tf.test.experimental.sync_devices()
