"""Attention as functions of TensorFlow's operations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tensorflow as tf

from ...attention import kv_heads, part_sizes, rotation, window_mask, window_rows
from .products import Cast, Variables, add_bias, product, widened

Masks = dict[bool, Any]  # by whether it is causal


def key_masks(tokens: Any, padding_id: int, causal: list[bool]) -> Masks:
    """The keys to which each member attends, (N, 1, 1 or length, length).

    Where all are padding, none is excluded as such.
    """
    real, masks = tf.not_equal(tokens, padding_id), {}
    if False in causal:
        masks[False] = (real | ~tf.reduce_any(real, 1, keepdims=True))[:, None, None]
    if True in causal:
        some = tf.cumsum(tf.cast(real, tf.int32), 1) > 0  # not padding, up to each member
        before = np.tri(tokens.shape[1], dtype=bool)
        masks[True] = ((real[:, None] | ~some[..., None]) & before)[:, None]
    return masks


def self_attention(
    sequence: Any, layer: dict[str, Any], own: Variables, cast: Cast, mask: Any = None
) -> Any:
    length, features = layer["input_shape"]
    of_head = features // layer["heads"]
    parts = cast(add_bias(product(sequence, own["in_weight"]), own.get("in_bias")))
    queries, keys, values = _heads(parts, layer, cast)
    # The scores are much larger than the queries, and a sum needs no pass in the backward.
    queries *= 1 / math.sqrt(of_head)
    scores = cast(tf.matmul(cast(queries), keys, transpose_b=True))
    if mask is not None:
        scores += tf.where(mask, tf.zeros([], scores.dtype), scores.dtype.min)
    elif layer["causal"]:
        scores += np.where(np.tri(length, dtype=bool), 0, scores.dtype.min)
    shares = cast(tf.cast(tf.nn.softmax(widened(scores)), values.dtype))
    mixed = tf.transpose(cast(tf.matmul(shares, values)), [0, 2, 1, 3])
    mixed = tf.reshape(mixed, [-1, length, features])
    return add_bias(product(mixed, own["out_weight"]), own.get("out_bias"))


def window_attention(images: Any, layer: dict[str, Any], own: Variables, cast: Cast) -> Any:
    (features, height, width), (rows, columns) = layer["input_shape"], layer["window"]
    split, pixels, heads = (height // rows, width // columns), rows * columns, layer["heads"]
    moved = tf.roll(images, [-each for each in layer["shift"]], [1, 2])
    # (N, height, width, features) -> (N x windows, pixels, features)
    windows = tf.reshape(moved, [-1, split[0], rows, split[1], columns, features])
    windows = tf.reshape(tf.transpose(windows, [0, 1, 3, 2, 4, 5]), [-1, pixels, features])
    parts = cast(product(windows, own["in_weight"]) + own["in_bias"])
    parts = tf.reshape(parts, [-1, pixels, 3, heads, features // heads])
    queries, keys, values = tf.unstack(tf.transpose(parts, [2, 0, 3, 1, 4]))
    queries *= 1 / math.sqrt(features // heads)
    scores = widened(cast(tf.matmul(cast(queries), keys, transpose_b=True)))
    bias = tf.gather(own["table"], window_rows(layer))
    bias = tf.transpose(tf.reshape(bias, [pixels, pixels, heads]), [2, 0, 1])
    bias, mask = tf.cast(bias, scores.dtype), window_mask(layer)
    if mask is not None:
        bias = bias + tf.constant(mask, scores.dtype)
        shape = [-1, len(mask), heads, pixels, pixels]
        scores = tf.reshape(tf.reshape(scores, shape) + bias, [-1, heads, pixels, pixels])
    else:
        scores += bias
    shares = cast(tf.cast(tf.nn.softmax(scores), values.dtype))
    mixed = tf.transpose(cast(tf.matmul(shares, values)), [0, 2, 1, 3])
    mixed = tf.reshape(mixed, [-1, pixels, features])
    result = cast(product(mixed, own["out_weight"]) + own["out_bias"])
    result = tf.reshape(result, [-1, *split, rows, columns, features])
    result = tf.reshape(tf.transpose(result, [0, 1, 3, 2, 4, 5]), [-1, height, width, features])
    return tf.roll(result, layer["shift"], [1, 2])


def _heads(parts: Any, layer: dict[str, Any], cast: Cast) -> Any:
    """Queries, keys and values (N, heads, length, features of a head)."""
    length, heads, tables = layer["input_shape"][0], layer["heads"], rotation(layer)
    of_head = layer["features"] // heads
    if kv_heads(layer) == heads and tables is None:
        parts = tf.reshape(parts, [-1, length, 3, heads, of_head])
        return tf.unstack(tf.transpose(parts, [2, 0, 3, 1, 4]))
    found = [
        tf.transpose(tf.reshape(part, [-1, length, size // of_head, of_head]), [0, 2, 1, 3])
        for part, size in zip(tf.split(parts, part_sizes(layer), -1), part_sizes(layer))
    ]
    if tables is not None:
        found[:2] = (cast(_rotated(each, layer, *tables)) for each in found[:2])
    repeats = heads // kv_heads(layer)
    if repeats > 1:
        found[1:] = (tf.repeat(each, repeats, 1) for each in found[1:])
    return found


def _rotated(heads: Any, layer: dict[str, Any], cosines: Any, sines: Any) -> Any:
    """Queries or keys (N, heads, length, features of a head), rotated by their position."""
    wide = widened(heads)
    interleaved = layer["interleaved"]
    first, second = (wide[..., ::2], wide[..., 1::2]) if interleaved else tf.split(wide, 2, -1)
    cosines, sines = (tf.constant(each, wide.dtype) for each in (cosines, sines))
    turned = first * cosines - second * sines, second * cosines + first * sines
    joined = tf.stack(turned, -1) if interleaved else tf.concat(turned, -1)
    shape = [-1, *heads.shape[1:]]
    return tf.cast(tf.reshape(joined, shape) if interleaved else joined, heads.dtype)
