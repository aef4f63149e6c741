"""Attention as layers of Keras."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import layers, ops

from ...attention import kv_heads, part_sizes, rotation, window_mask, window_rows

ZEROS = {"kernel_initializer": "zeros"}
Masks = dict[bool, Any]  # by whether it is causal


def key_masks(tokens: Any, padding_id: int | None, causal: list[bool]) -> Masks:
    """The keys to which each member attends, (N, 1 or length, length).

    Where all are padding, none is excluded as such.
    """
    masks: Masks = {}
    if padding_id is None:
        return masks
    real = ops.not_equal(tokens, padding_id)
    if False in causal:
        none = ops.logical_not(ops.any(real, axis=1, keepdims=True))
        masks[False] = ops.expand_dims(ops.logical_or(real, none), 1)
    if True in causal:
        none = ops.equal(ops.cumsum(ops.cast(real, "int32"), axis=1), 0)  # up to each member
        keys = ops.logical_or(ops.expand_dims(real, 1), ops.expand_dims(none, 2))
        masks[True] = ops.logical_and(keys, np.tri(tokens.shape[1], dtype=bool)[None])
    return masks


class RotaryAttention(layers.Layer):
    """Attention with heads of keys that several heads of queries share, and with rotations."""

    def __init__(self, layer: dict[str, Any], **options: Any) -> None:
        super().__init__(**options)
        self._layer, self._tables = layer, rotation(layer) or ()
        self._of_head = layer["features"] // layer["heads"]
        self._repeats = layer["heads"] // kv_heads(layer)
        sizes = dict(zip(("query", "key", "value"), part_sizes(layer)))
        self.query_dense, self.key_dense, self.value_dense, self.output_dense = (
            layers.Dense(size, use_bias=layer["bias"], **ZEROS, name=name)
            for name, size in {**sizes, "output": layer["features"]}.items()
        )

    def build(self, shape: Any) -> None:
        for each in (self.query_dense, self.key_dense, self.value_dense, self.output_dense):
            each.build(shape)

    def call(self, sequence: Any, allowed: Any = None) -> Any:
        """`allowed` are the keys to which each member attends, (N, 1 or length, length)."""
        shape = (-1, self._layer["input_shape"][0])
        queries, keys, values = (
            ops.reshape(dense(sequence), (*shape, dense.units // self._of_head, self._of_head))
            for dense in (self.query_dense, self.key_dense, self.value_dense)
        )
        if self._tables:
            queries, keys = self._rotated(queries), self._rotated(keys)
        if self._repeats > 1:
            keys, values = (ops.repeat(each, self._repeats, axis=2) for each in (keys, values))
        options: dict[str, Any] = {"is_causal": self._layer["causal"]}
        if allowed is not None:  # without later members, where the layer is causal
            options = {"mask": ops.expand_dims(allowed, 1)}
        mixed = ops.dot_product_attention(queries, keys, values, **options)
        return self.output_dense(ops.reshape(mixed, (*shape, self._layer["features"])))

    def _rotated(self, heads: Any) -> Any:
        """Queries or keys (N, length, heads, features of a head), rotated by their position."""
        wide, (length, size) = ops.cast(heads, self.variable_dtype), (heads.shape[1], self._of_head)
        cosines, sines = (
            ops.convert_to_tensor(each[:, None], self.variable_dtype) for each in self._tables
        )
        interleaved = self._layer["interleaved"]
        shape = (-1, length, heads.shape[2])
        pairs = ops.reshape(wide, (*shape, size // 2, 2) if interleaved else (*shape, 2, size // 2))
        axis = 4 if interleaved else 3
        first, second = (ops.take(pairs, number, axis=axis) for number in (0, 1))
        turned = first * cosines - second * sines, second * cosines + first * sines
        return ops.cast(ops.reshape(ops.stack(turned, axis), (*shape, size)), heads.dtype)


class WindowAttention(layers.Layer):
    """Attention among the pixels of each window of images (N, height, width, features)."""

    def __init__(self, layer: dict[str, Any], **options: Any) -> None:
        super().__init__(**options)
        self._layer, self._index, self._mask = layer, window_rows(layer), window_mask(layer)
        features = layer["features"]
        self.in_dense = layers.Dense(3 * features, **ZEROS, name="in")
        self.out_dense = layers.Dense(features, **ZEROS, name="out")

    def build(self, shape: Any) -> None:
        rows, columns = self._layer["window"]
        distances = (2 * rows - 1) * (2 * columns - 1)
        size = (distances, self._layer["heads"])
        self.table = self.add_weight(shape=size, initializer="zeros", name="table")
        for each in (self.in_dense, self.out_dense):
            each.build((None, rows * columns, self._layer["features"]))

    def call(self, images: Any) -> Any:
        (features, height, width), (rows, columns) = (
            self._layer["input_shape"],
            self._layer["window"],
        )
        split, shift = (height // rows, width // columns), self._layer["shift"]
        moved = ops.roll(images, [-each for each in shift], (1, 2)) if any(shift) else images
        windows = ops.reshape(moved, (-1, split[0], rows, split[1], columns, features))
        windows = ops.transpose(windows, (0, 1, 3, 2, 4, 5))
        mixed = self._mixed(ops.reshape(windows, (-1, rows * columns, features)))
        mixed = ops.reshape(self.out_dense(mixed), (-1, *split, rows, columns, features))
        result = ops.transpose(mixed, (0, 1, 3, 2, 4, 5))
        result = ops.reshape(result, (-1, height, width, features))
        return ops.roll(result, list(shift), (1, 2)) if any(shift) else result

    def _mixed(self, windows: Any) -> Any:
        """The attention in windows (N x windows, pixels, features)."""
        pixels, features = windows.shape[1:]
        heads, mask = self._layer["heads"], self._mask
        parts = ops.reshape(self.in_dense(windows), (-1, pixels, 3, heads, features // heads))
        queries, keys, values = (
            ops.transpose(parts[:, :, number], (0, 2, 1, 3)) for number in range(3)
        )
        scores = ops.matmul(queries, ops.transpose(keys, (0, 1, 3, 2)))
        scores = ops.cast(scores, self.variable_dtype) / (features // heads) ** 0.5
        bias = ops.reshape(ops.take(self.table, self._index, axis=0), (pixels, pixels, heads))
        bias = ops.cast(ops.transpose(bias, (2, 0, 1)), self.variable_dtype)
        if mask is not None:
            bias = bias + ops.convert_to_tensor(mask, self.variable_dtype)
            shaped = ops.reshape(scores, (-1, len(mask), heads, pixels, pixels))
            scores = ops.reshape(shaped + bias, (-1, heads, pixels, pixels))
        else:
            scores = scores + bias
        shares = ops.cast(ops.softmax(scores), values.dtype)
        mixed = ops.transpose(ops.matmul(shares, values), (0, 2, 1, 3))
        return ops.reshape(mixed, (-1, pixels, features))
