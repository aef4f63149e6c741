"""Products and sums of TensorFlow, as several kinds of layers need them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

Variables = dict[str, Any]
Cast = Callable[[Any], Any]  # converts a tensor, or rounds its values and their gradient


def product(values: Any, weight: Any, *, transpose_b: bool = False) -> Any:
    """The product of the last axis and a matrix.

    The members of all sequences are rows of one matrix. With a batch of matrices, TensorFlow would
    compute the gradient of the weight for each sample, and then add them.
    """
    if values.shape.rank == 2:
        return tf.matmul(values, weight, transpose_b=transpose_b)
    length, features = values.shape[1:]
    result = tf.matmul(tf.reshape(values, [-1, features]), weight, transpose_b=transpose_b)
    return tf.reshape(result, [-1, length, result.shape[-1]])


def add_bias(values: Any, bias: Any) -> Any:
    # A plain sum, whose gradient is faster on a CPU: LeNet trained 2 % faster than with
    # tf.nn.bias_add.
    return values if bias is None else values + bias


def widened(values: Any) -> Any:
    """The values, those in bfloat16 in float32."""
    return tf.cast(values, tf.float32) if values.dtype == tf.bfloat16 else values
