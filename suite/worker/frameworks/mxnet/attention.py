"""Attention as blocks of Gluon."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from mxnet import gluon
from mxnet.gluon import nn

from ...attention import EXCLUDED, kv_heads, part_sizes, rotation, window_mask, window_rows


def kept_keys(F: Any, real: Any, *, causal: bool) -> Any:  # noqa: N803, the name is Gluon's
    """1 for the keys that are not padding, (batch, 1 or length of queries, length).

    `real` (batch, length) is 1 for members that are not. Where there are none, or in a causal
    attention none up to a query, it is 1 for all.
    """
    some = F.cumsum(real, axis=1) > 0 if causal else F.max(real, axis=1, keepdims=True)
    return F.broadcast_maximum(real.expand_dims(1), 1 - some.expand_dims(2))


class Rotary(gluon.HybridBlock):
    """Queries or keys (batch, heads, length, features of a head), rotated by their position."""

    def __init__(self, tables: tuple[np.ndarray, np.ndarray], *, interleaved: bool) -> None:
        super().__init__()
        self._pairs, self._interleaved = tables[0].shape[1], interleaved
        self.cosines, self.sines = (
            self.params.get_constant(name, table[None, None])
            for name, table in zip(("cosines", "sines"), tables)
        )

    def hybrid_forward(self, F: Any, heads: Any, cosines: Any, sines: Any) -> Any:  # noqa: N803
        if self._interleaved:
            pairs = heads.reshape((0, 0, 0, -1, 2))
            first, second = F.split(pairs, 2, axis=4, squeeze_axis=True)
        else:
            first, second = F.split(heads, 2, axis=3)
        turned = (
            F.broadcast_mul(first, cosines) - F.broadcast_mul(second, sines),
            F.broadcast_mul(second, cosines) + F.broadcast_mul(first, sines),
        )
        if self._interleaved:
            return F.stack(*turned, axis=4).reshape((0, 0, 0, -3))
        return F.concat(*turned, dim=3)


class SelfAttention(gluon.HybridBlock):
    def __init__(self, layer: dict[str, Any], prefix: str) -> None:
        super().__init__(prefix=prefix)
        features, self._heads = layer["features"], layer["heads"]
        self._length, self._kv_heads = layer["input_shape"][0], kv_heads(layer)
        self._causal, self._padded = layer["causal"], layer["padding_id"] is not None
        self._scale = 1 / math.sqrt(features // self._heads)
        sizes = {"flatten": False, "use_bias": layer["bias"], "in_units": features}
        if layer["causal"]:
            # Added to the scores; the exponential of so small a number is 0.
            above = np.triu(np.full((self._length, self._length), -1e30), 1)
            self.mask = self.params.get_constant("mask", above)
        tables = rotation(layer)
        with self.name_scope():
            self.input = nn.Dense(sum(part_sizes(layer)), **sizes, prefix="in_")
            self.output = nn.Dense(features, **sizes, prefix="out_")
            self.rotary = Rotary(tables, interleaved=layer["interleaved"]) if tables else None

    def hybrid_forward(self, F: Any, sequence: Any, *real: Any, mask: Any = None) -> Any:  # noqa: N803
        """With padding, `real` (batch, length) is 1 for the other members."""
        queries, keys, values = self._parts(F, self.input(sequence))
        scores = F.batch_dot(queries * self._scale, keys, transpose_b=True)
        if mask is not None:
            scores = F.broadcast_add(scores, mask.expand_dims(0))
        if real and self._padded:
            kept = kept_keys(F, *real, causal=self._causal)
            excluded = ((1 - kept) * EXCLUDED).expand_dims(1)
            scores = F.broadcast_add(scores.reshape((-4, -1, self._heads, 0, 0)), excluded)
            scores = scores.reshape((-3, 0, 0))
        mixed = F.batch_dot(F.softmax(scores), values)
        mixed = mixed.reshape((-4, -1, self._heads, 0, 0)).transpose((0, 2, 1, 3))
        return self.output(mixed.reshape((0, 0, -3)))

    def _parts(self, F: Any, values: Any) -> Any:  # noqa: N803
        """Queries, keys and values (batch x heads, length, features of a head)."""
        if self._kv_heads == self._heads and self.rotary is None:
            parts = values.reshape((0, 0, 3, self._heads, -1)).transpose((2, 0, 3, 1, 4))
            parts = parts.reshape((3, -1, self._length, 0), reverse=True)
            return F.split(parts, 3, axis=0, squeeze_axis=True)
        parts = values.reshape((0, 0, self._heads + 2 * self._kv_heads, -1))
        ends = [0, self._heads, self._heads + self._kv_heads, None]
        found = [
            F.slice_axis(parts, axis=2, begin=begin, end=end).transpose((0, 2, 1, 3))
            for begin, end in zip(ends, ends[1:])
        ]
        if self.rotary is not None:
            found[:2] = map(self.rotary, found[:2])
        repeats = self._heads // self._kv_heads
        if repeats > 1:
            found[1:] = (F.repeat(each, repeats=repeats, axis=1) for each in found[1:])
        return [each.reshape((-3, 0, 0)) for each in found]


class WindowAttention(gluon.HybridBlock):
    def __init__(self, layer: dict[str, Any], prefix: str) -> None:
        super().__init__(prefix=prefix)
        (features, height, width), (rows, columns) = layer["input_shape"], layer["window"]
        self._features, self._heads, self._shift = features, layer["heads"], layer["shift"]
        self._split, self._pixels = (
            (height // rows, rows, width // columns, columns),
            rows * columns,
        )
        distances, mask = (2 * rows - 1) * (2 * columns - 1), window_mask(layer)
        self.table = self.params.get("table", shape=(distances, self._heads))
        self.index = self.params.get_constant("index", window_rows(layer))
        if mask is not None:
            self.mask = self.params.get_constant("mask", mask[None])
        sizes = {"flatten": False, "in_units": features}
        with self.name_scope():
            self.input = nn.Dense(3 * features, **sizes, prefix="in_")
            self.output = nn.Dense(features, **sizes, prefix="out_")

    def hybrid_forward(self, F: Any, images: Any, **own: Any) -> Any:  # noqa: N803
        table, index, mask = own["table"], own["index"], own.get("mask")
        features, pixels = self._features, self._pixels
        windows = self._rolled(F, images.transpose((0, 2, 3, 1)), 1)
        windows = windows.reshape((-1, *self._split, features)).transpose((0, 1, 3, 2, 4, 5))
        parts = self.input(windows.reshape((-1, pixels, features)))
        parts = parts.reshape((0, 0, 3, self._heads, -1)).transpose((2, 0, 3, 1, 4))
        parts = parts.reshape((3, -1, pixels, 0), reverse=True)
        queries, keys, values = F.split(parts, 3, axis=0, squeeze_axis=True)
        scale = 1 / math.sqrt(features // self._heads)
        scores = F.batch_dot(queries * scale, keys, transpose_b=True)
        bias = F.take(table, index).transpose().reshape((1, self._heads, pixels, pixels))
        if mask is None:
            scores = F.broadcast_add(scores.reshape((-1, self._heads, pixels, pixels)), bias)
        else:
            count = self._split[0] * self._split[2]
            scores = scores.reshape((-1, count, self._heads, pixels, pixels))
            scores = F.broadcast_add(scores, F.broadcast_add(bias.expand_dims(0), mask))
        shares = F.softmax(scores).reshape((-1, pixels, pixels))
        mixed = F.batch_dot(shares, values)
        mixed = mixed.reshape((-4, -1, self._heads, 0, 0)).transpose((0, 2, 1, 3))
        result = self.output(mixed.reshape((0, 0, -3)))
        height, rows, width, columns = self._split
        result = result.reshape((-1, height, width, rows, columns, features))
        result = result.transpose((0, 1, 3, 2, 4, 5))
        result = result.reshape((-1, height * rows, width * columns, features))
        return self._rolled(F, result, -1).transpose((0, 3, 1, 2))

    def _rolled(self, F: Any, images: Any, direction: int) -> Any:  # noqa: N803
        """The images (N, height, width, features), moved by the shift; MXNet has no roll."""
        for axis, move in enumerate(self._shift, 1):
            if move:
                first = F.slice_axis(images, axis=axis, begin=direction * move, end=None)
                second = F.slice_axis(images, axis=axis, begin=0, end=direction * move)
                images = F.concat(first, second, dim=axis)
        return images
