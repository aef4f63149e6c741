"""TensorFlow's matrix products and copies, for the hardware peak."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import tensorflow as tf

from ...protocol import Trial
from . import device


def operations(
    trial: Trial, precisions: Sequence[str], size: int, values: int
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The operations by name: products of matrices (size, size), a copy of `values` numbers."""
    device.prepare(trial)
    for name in precisions:
        dtype = tf.bfloat16 if name == "bfloat16" else tf.float32
        a, b = (tf.cast(tf.random.uniform((size, size)), dtype) for _ in range(2))
        tf.config.experimental.enable_tensor_float_32_execution(name == "tf32")
        yield f"matmul_{name}", partial(tf.linalg.matmul, a, b)
    source = tf.random.uniform((values,))
    yield "copy", lambda: tf.raw_ops.DeepCopy(x=source)


def synchronize() -> None:
    """Wait for all operations."""
    tf.test.experimental.sync_devices()
