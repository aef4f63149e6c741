"""Attention as layers of PaddlePaddle."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional

from ...attention import EXCLUDED, kv_heads, part_sizes, rotation, window_mask, window_rows

Masks = dict[bool, paddle.Tensor]  # by whether it is causal


def key_masks(tokens: paddle.Tensor, padding_id: int, causal: list[bool]) -> Masks:
    """1 for the keys to which each member attends, else 0, (batch, 1, 1 or length, length).

    Where all are padding, none is excluded as such.
    """
    real, masks = (tokens != padding_id).astype(paddle.get_default_dtype()), {}
    if False in causal:
        keys = paddle.maximum(real, 1 - real.max(1, keepdim=True))
        masks[False] = keys.unsqueeze([1, 2])
    if True in causal:
        some = (real.cumsum(1) > 0).astype(real.dtype)  # not padding, up to each member
        keys = paddle.maximum(real.unsqueeze(1), 1 - some.unsqueeze(2))
        masks[True] = keys.tril().unsqueeze(1)
    return masks


class Rotary(nn.Layer):
    """Queries or keys (batch, length, heads, features of a head), rotated by their position."""

    def __init__(self, tables: tuple[np.ndarray, np.ndarray], *, interleaved: bool) -> None:
        super().__init__()
        self._interleaved = interleaved
        for name, table in zip(("cosines", "sines"), tables):
            values = paddle.to_tensor(table[:, None], paddle.get_default_dtype())
            self.register_buffer(name, values, persistable=False)

    def forward(self, heads: paddle.Tensor) -> paddle.Tensor:
        wide = heads.astype(self.cosines.dtype)
        if self._interleaved:
            first, second = wide.reshape([0, 0, 0, -1, 2]).unbind(4)
        else:
            first, second = wide.chunk(2, -1)
        turned = [
            first * self.cosines - second * self.sines,
            second * self.cosines + first * self.sines,
        ]
        if self._interleaved:
            return paddle.stack(turned, -1).flatten(3).astype(heads.dtype)
        return paddle.concat(turned, -1).astype(heads.dtype)


class SelfAttention(nn.Layer):
    def __init__(self, layer: dict[str, Any]) -> None:
        super().__init__()
        self._causal, self._sizes = layer["causal"], part_sizes(layer)
        self._padded = layer["padding_id"] is not None
        self._shape = [0, layer["input_shape"][0], -1, layer["features"] // layer["heads"]]
        self._repeats = layer["heads"] // kv_heads(layer)
        bias = None if layer["bias"] else False
        self.input = nn.Linear(layer["features"], sum(self._sizes), bias_attr=bias)
        self.output = nn.Linear(layer["features"], layer["features"], bias_attr=bias)
        tables = rotation(layer)
        self._rotary = Rotary(tables, interleaved=layer["interleaved"]) if tables else None

    def forward(self, sequence: paddle.Tensor, masks: Masks | None = None) -> paddle.Tensor:
        # (batch, length, values of a member) -> three of (batch, length, heads, features of a head)
        parts = self.input(sequence)
        queries, keys, values = self._parts(parts)
        options: dict[str, Any] = {"is_causal": self._causal}
        if masks and self._padded:  # without later members, where the layer is causal
            options = {"attn_mask": ((1 - masks[self._causal]) * EXCLUDED).astype(queries.dtype)}
        mixed = functional.scaled_dot_product_attention(queries, keys, values, **options)
        return self.output(mixed.flatten(2))

    def _parts(self, parts: paddle.Tensor) -> list[paddle.Tensor]:
        if self._repeats == 1 and self._rotary is None:
            return parts.reshape([0, 0, 3, -1, self._shape[-1]]).unbind(2)
        found = [each.reshape(self._shape) for each in parts.split(self._sizes, axis=2)]
        if self._rotary is not None:
            found[:2] = map(self._rotary, found[:2])
        if self._repeats > 1:
            found[1:] = (each.repeat_interleave(self._repeats, 2) for each in found[1:])
        return found


class WindowAttention(nn.Layer):
    def __init__(self, layer: dict[str, Any]) -> None:
        super().__init__()
        (features, height, width), (rows, columns) = layer["input_shape"], layer["window"]
        self._split, self._heads = [height // rows, rows, width // columns, columns], layer["heads"]
        self._features, self._shift = features, list(layer["shift"])
        self.input = nn.Linear(features, 3 * features)
        self.output = nn.Linear(features, features)
        self.table = self.create_parameter([(2 * rows - 1) * (2 * columns - 1), self._heads])
        mask, dtype = window_mask(layer), paddle.get_default_dtype()
        excluded = None if mask is None else paddle.to_tensor(mask[None], dtype)
        self.register_buffer("index", paddle.to_tensor(window_rows(layer)), persistable=False)
        self.register_buffer("mask", excluded, persistable=False)

    def forward(self, images: paddle.Tensor) -> paddle.Tensor:
        height, rows, width, columns = self._split
        features, pixels = self._features, rows * columns
        moved = images.transpose([0, 2, 3, 1])
        if self.mask is not None:
            moved = paddle.roll(moved, [-each for each in self._shift], [1, 2])
        windows = moved.reshape([-1, *self._split, features]).transpose([0, 1, 3, 2, 4, 5])
        parts = self.input(windows.reshape([-1, pixels, features]))
        parts = parts.reshape([-1, pixels, 3, self._heads, features // self._heads])
        queries, keys, values = parts.transpose([2, 0, 3, 1, 4]).unbind(0)
        scores = paddle.matmul(queries * (features // self._heads) ** -0.5, keys, transpose_y=True)
        mixed = paddle.matmul(functional.softmax(self._biased(scores)), values)
        mixed = self.output(mixed.transpose([0, 2, 1, 3]).reshape([-1, pixels, features]))
        mixed = mixed.reshape([-1, height, width, rows, columns, features])
        moved = mixed.transpose([0, 1, 3, 2, 4, 5])
        moved = moved.reshape([-1, height * rows, width * columns, features])
        if self.mask is not None:
            moved = paddle.roll(moved, self._shift, [1, 2])
        return moved.transpose([0, 3, 1, 2])

    def _biased(self, scores: paddle.Tensor) -> paddle.Tensor:
        pixels = scores.shape[-1]
        bias = paddle.gather(self.table, self.index).reshape([pixels, pixels, self._heads])
        bias = bias.transpose([2, 0, 1]).astype(scores.dtype)
        if self.mask is None:
            return scores + bias
        count = self._split[0] * self._split[2]
        shaped = scores.reshape([-1, count, self._heads, pixels, pixels])
        return (shaped + (bias + self.mask.astype(scores.dtype))).reshape(scores.shape)
