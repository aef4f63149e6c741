"""Attention as Flax NNX modules."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
from flax import nnx
from jax import numpy as jnp

from ...attention import (
    EXCLUDED,
    kv_heads,
    masks_needed,
    part_sizes,
    rotation,
    window_mask,
    window_rows,
)
from ...protocol import Trial
from . import rounding

Dense = Callable[[int, int], Any]  # makes the module of a product, by its inputs and outputs


Masks = dict[bool, Any]  # by whether it is causal


def key_masks(trial: Trial, tokens: Any) -> Masks:
    """The keys to which each member attends, (batch, 1, 1 or length, length), for each kind needed.

    Where all are padding, none is excluded as such.
    """
    padding_id, causal = masks_needed(trial.leaves())
    if padding_id is None:
        return {}
    real, masks = tokens != padding_id, {}
    if False in causal:
        masks[False] = (real | ~real.any(1, keepdims=True))[:, None, None]
    if True in causal:
        some = real.cumsum(1) > 0  # not padding, up to each member
        masks[True] = jnp.tril(real[:, None] | ~some[..., None])[:, None]
    return masks


class Attention(nnx.Module):
    """What both kinds share: both products, and the precision of the values between them."""

    def __init__(self, features: int, parts: int, trial: Trial, dense: Dense) -> None:
        self.in_float64 = trial.dtype == "float64"
        self.rounded_bits = trial.simulated_bits
        self.input = dense(features, parts)
        self.output = dense(features, features)

    def _rounded(self, values: Any) -> Any:
        return rounding.rounded(self.rounded_bits, values) if self.rounded_bits else values

    def _exact(self, values: tuple[Any, Any, Any], *, causal: bool, bias: Any = None) -> Any:
        """The mixed values of queries, keys and values of a reference.

        jax.nn.dot_product_attention computes its softmax in float32.
        """
        queries, keys, values_ = values
        if self.rounded_bits:
            return rounding.attention(self.rounded_bits, causal, *values, bias)
        shares = rounding.attention_shares(queries, keys, causal=causal, bias=bias)
        return jnp.einsum("bhqk,bkhd->bqhd", shares, values_)


class SelfAttention(Attention):
    def __init__(self, layer: dict[str, Any], trial: Trial, dense: Dense) -> None:
        size, sizes = layer["features"], part_sizes(layer)
        super().__init__(size, sum(sizes), trial, dense)
        self.causal, self.of_head = layer["causal"], size // layer["heads"]
        self.repeats = layer["heads"] // kv_heads(layer)
        self.ends = (sizes[0], sizes[0] + sizes[1])  # of the queries and of the keys
        self.padded = layer["padding_id"] is not None
        rotates = layer["rotary_theta"] is not None
        self.rotated = partial(rotated, layer) if rotates else None
        # cuDNN's fused attention takes no float32.
        fused = trial.mixed and trial.device != "cpu"
        self.implementation = "cudnn" if fused else None

    def __call__(self, sequence: Any, masks: Masks | None = None) -> Any:
        batch, length, features = sequence.shape
        mask = masks[self.causal] if masks and self.padded else None
        parts = self._rounded(self.input(sequence))
        shape = batch, length, -1, self.of_head
        queries, keys, values = (part.reshape(shape) for part in jnp.split(parts, self.ends, -1))
        if self.rotated:
            queries, keys = (self._rounded(self.rotated(each)) for each in (queries, keys))
        if self.rounded_bits or self.in_float64:
            if self.repeats > 1:
                keys, values = (jnp.repeat(each, self.repeats, 2) for each in (keys, values))
            bias = None
            if mask is not None:
                shape = (batch, queries.shape[2], length, length)
                bias = jnp.where(mask, 0.0, EXCLUDED).astype(queries.dtype)
                bias = jnp.broadcast_to(bias, shape)
            mixed = self._exact((queries, keys, values), causal=self.causal, bias=bias)
        else:
            if mask is not None and self.implementation == "cudnn":
                mask = jnp.broadcast_to(mask, (batch, 1, length, length))
            options = {"is_causal": self.causal, "implementation": self.implementation}
            mixed = jax.nn.dot_product_attention(queries, keys, values, mask=mask, **options)
        return self.output(mixed.reshape(batch, length, features))


class WindowAttention(Attention):
    def __init__(self, layer: dict[str, Any], trial: Trial, dense: Dense) -> None:
        size = layer["features"]
        super().__init__(size, 3 * size, trial, dense)
        self.heads, self.shift = layer["heads"], tuple(layer["shift"])
        (height, width), (rows, columns) = layer["input_shape"][1:], layer["window"]
        self.split = (height // rows, rows, width // columns, columns)
        self.constants = partial(_window_constants, layer)
        distances = (2 * rows - 1) * (2 * columns - 1)
        self.table = nnx.Param(jnp.zeros((distances, self.heads), trial.dtype))

    def __call__(self, images: Any) -> Any:
        batch, features = len(images), images.shape[-1]
        moved = jnp.roll(images, [-each for each in self.shift], (1, 2))
        # (N, height, width, features) -> (N x windows, pixels, features)
        windows = moved.reshape(batch, *self.split, features).swapaxes(2, 3)
        whole, pixels = windows.shape, self.split[1] * self.split[3]
        parts = self._rounded(self.input(windows.reshape(-1, pixels, features)))
        shape = len(parts), pixels, self.heads, -1
        mixed = self._attend(*(part.reshape(shape) for part in jnp.split(parts, 3, -1)))
        result = self.output(mixed.reshape(-1, pixels, features)).reshape(whole)
        moved = result.swapaxes(2, 3).reshape(images.shape)
        return jnp.roll(moved, self.shift, (1, 2))

    def _attend(self, queries: Any, keys: Any, values: Any) -> Any:
        """All (N x windows, pixels, heads, features of a head)."""
        index, mask = self.constants()
        pixels, windows = queries.shape[1], len(queries)
        bias = self.table[...][index].reshape(1, pixels, pixels, self.heads).transpose(0, 3, 1, 2)
        if mask is not None:
            bias = jnp.tile(bias + mask.astype(bias.dtype), (windows // len(mask), 1, 1, 1))
        if self.rounded_bits or self.in_float64:
            bias = jnp.broadcast_to(bias, (windows, *bias.shape[1:]))
            return self._exact((queries, keys, values), causal=False, bias=bias)
        return jax.nn.dot_product_attention(queries, keys, values, bias.astype(queries.dtype))


def _window_constants(layer: dict[str, Any]) -> tuple[Any, Any]:
    """The rows of the table, and what excludes pairs of pixels."""
    return window_rows(layer), window_mask(layer)


def rotated(layer: dict[str, Any], heads: Any) -> Any:
    """Queries or keys (batch, length, heads, features of a head), rotated by their position."""
    wide = heads.astype(jnp.promote_types(heads.dtype, jnp.float32))
    tables = rotation(layer)
    assert tables is not None
    cosines, sines = (jnp.asarray(each[:, None], wide.dtype) for each in tables)
    if layer["interleaved"]:
        first, second = wide[..., ::2], wide[..., 1::2]
    else:
        first, second = jnp.split(wide, 2, -1)
    turned = first * cosines - second * sines, second * cosines + first * sines
    if layer["interleaved"]:
        return jnp.stack(turned, -1).reshape(heads.shape).astype(heads.dtype)
    return jnp.concatenate(turned, -1).astype(heads.dtype)
