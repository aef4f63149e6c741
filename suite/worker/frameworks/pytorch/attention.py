"""Attention as modules of PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from ...attention import kv_heads, part_sizes, rotation, window_mask, window_rows

Masks = dict[bool, torch.Tensor]  # by whether it is causal


def key_masks(tokens: torch.Tensor, padding_id: int, causal: list[bool]) -> Masks:
    """The keys to which each member attends, (batch, 1, 1 or length, length).

    Where all are padding, none is excluded as such.
    """
    real, masks = tokens != padding_id, {}
    if False in causal:
        masks[False] = (real | ~real.any(1, keepdim=True))[:, None, None]
    if True in causal:
        some = real.cumsum(1) > 0  # not padding, up to each member
        masks[True] = (real[:, None] | ~some[..., None]).tril()[:, None]
    return masks


class Rotary(nn.Module):
    """Queries or keys (batch, heads, length, features of a head), rotated by their position."""

    def __init__(self, tables: tuple[np.ndarray, np.ndarray], *, interleaved: bool) -> None:
        super().__init__()
        self._interleaved = interleaved
        for name, table in zip(("cosines", "sines"), tables):
            values = torch.from_numpy(table).to(torch.get_default_dtype())
            self.register_buffer(name, values, persistent=False)

    def forward(self, heads: torch.Tensor) -> torch.Tensor:
        wide = heads.to(self.cosines.dtype)
        if self._interleaved:
            first, second = wide[..., ::2], wide[..., 1::2]
        else:
            first, second = wide.chunk(2, -1)
        turned = (
            first * self.cosines - second * self.sines,
            second * self.cosines + first * self.sines,
        )
        joined = torch.stack(turned, -1).flatten(-2) if self._interleaved else torch.cat(turned, -1)
        return joined.to(heads.dtype)


class SelfAttention(nn.Module):
    def __init__(self, layer: dict[str, Any]) -> None:
        super().__init__()
        self._sizes, self.causal = part_sizes(layer), layer["causal"]
        self._padded = layer["padding_id"] is not None
        self._of_head = layer["features"] // layer["heads"]
        self._repeats = layer["heads"] // kv_heads(layer)
        self.input = nn.Linear(layer["features"], sum(self._sizes), bias=layer["bias"])
        self.output = nn.Linear(layer["features"], layer["features"], bias=layer["bias"])
        tables = rotation(layer)
        self.rotary = Rotary(tables, interleaved=layer["interleaved"]) if tables else None

    def forward(self, sequence: torch.Tensor, masks: Masks | None = None) -> torch.Tensor:
        batch, length, features = sequence.shape
        # (batch, length, values of a member) -> three of (batch, heads, length, features of a
        # head). The gradient of `split` is one concatenation; that of `unbind` makes two copies.
        parts = self.input(sequence).split(self._sizes, dim=2)
        shape = batch, length, -1, self._of_head
        queries, keys, values = (part.view(shape).transpose(1, 2) for part in parts)
        if self.rotary is not None:
            queries, keys = self.rotary(queries), self.rotary(keys)
        if self._repeats > 1:
            keys, values = (each.repeat_interleave(self._repeats, 1) for each in (keys, values))
        mask = masks[self.causal] if masks and self._padded else None
        mixed = self.attend(queries, keys, values, mask)
        return self.output(mixed.transpose(1, 2).reshape(batch, length, features))

    def attend(
        self,
        queries: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """All but the mask (batch, heads, length, features of a head)."""
        if mask is not None:  # which excludes later members itself, where the layer is causal
            return functional.scaled_dot_product_attention(queries, keys, values, mask)
        return functional.scaled_dot_product_attention(queries, keys, values, is_causal=self.causal)


class WindowAttention(nn.Module):
    def __init__(self, layer: dict[str, Any]) -> None:
        super().__init__()
        features, self._heads = layer["features"], layer["heads"]
        (height, width), (rows, columns) = layer["input_shape"][1:], layer["window"]
        self._split = (height // rows, rows, width // columns, columns)
        self._shift = tuple(layer["shift"])
        self.input = nn.Linear(features, 3 * features)
        self.output = nn.Linear(features, features)
        distances = (2 * rows - 1) * (2 * columns - 1)
        self.table = nn.Parameter(torch.zeros(distances, self._heads))
        self.causal = False
        index, mask = torch.from_numpy(window_rows(layer)).long(), window_mask(layer)
        self.register_buffer("index", index, persistent=False)
        excluded = None if mask is None else torch.from_numpy(mask).to(torch.get_default_dtype())
        self.register_buffer("mask", excluded, persistent=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        moved = images.permute(0, 2, 3, 1)
        if self.mask is not None:
            moved = moved.roll([-each for each in self._shift], (1, 2))
        batch, features, height, width = images.shape
        # (N, height, width, features) -> (N x windows, pixels, features)
        whole = (batch, self._split[0], self._split[2], self._split[1], self._split[3], features)
        windows = moved.reshape(batch, *self._split, features).transpose(2, 3)
        windows = windows.reshape(-1, self._split[1] * self._split[3], features)
        parts = self.input(windows).split(features, dim=2)
        shape = len(windows), windows.shape[1], self._heads, -1
        queries, keys, values = (part.view(shape).transpose(1, 2) for part in parts)
        mixed = self.attend(queries, keys, values, self._bias(batch))
        mixed = self.output(mixed.transpose(1, 2).reshape(windows.shape))
        moved = mixed.view(whole).transpose(2, 3).reshape(batch, height, width, features)
        if self.mask is not None:
            moved = moved.roll(self._shift, (1, 2))
        return moved.permute(0, 3, 1, 2)

    def _bias(self, batch: int) -> torch.Tensor:
        """What is added to the scores (N x windows or 1, heads, pixels, pixels)."""
        pixels = self._split[1] * self._split[3]
        bias = self.table[self.index].view(1, pixels, pixels, -1).permute(0, 3, 1, 2)
        if self.mask is None:
            return bias.contiguous()
        return (bias + self.mask).repeat(batch, 1, 1, 1)

    def attend(
        self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, bias: torch.Tensor
    ) -> torch.Tensor:
        """All (windows, heads, pixels, features of a head)."""
        return functional.scaled_dot_product_attention(queries, keys, values, bias)
