"""What all frameworks need of an attention: the sizes of its parts, and its angles of rotation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .protocol import Array

EXCLUDED = -1e30  # added to a score, whose exponential is then 0


def rotation(layer: dict[str, Any]) -> tuple[Array, Array] | None:
    """The cosines and sines (length, pairs of a head) of the angles (Su et al. 2021), in float64.

    None where the attention rotates nothing.
    """
    theta = layer["rotary_theta"]
    if theta is None:
        return None
    size = layer["features"] // layer["heads"]
    rates = theta ** (-np.arange(0, size, 2, dtype=np.float64) / size)
    angles = np.outer(np.arange(layer["input_shape"][0]), rates)
    return np.cos(angles), np.sin(angles)


def part_sizes(layer: dict[str, Any]) -> list[int]:
    """The number of values of an attention's queries, keys and values for one member."""
    size = layer["features"] // layer["heads"]
    of_keys = size * kv_heads(layer)
    return [layer["features"], of_keys, of_keys]


def kv_heads(layer: dict[str, Any]) -> int:
    """The number of heads of an attention's keys, and of its values."""
    return int(layer["kv_heads"] or layer["heads"])


def masks_needed(leaves: Iterable[dict[str, Any]]) -> tuple[int | None, list[bool]]:
    """The `padding_id` of a model, and of each mask that its layers need whether it is causal.

    A mask is that of the keys to which a member attends; that of a mean is not causal.
    """
    found = [layer for layer in leaves if layer.get("padding_id") is not None]
    causal = sorted({layer.get("causal", False) for layer in found})
    return (found[0]["padding_id"] if found else None), causal


def window_rows(layer: dict[str, Any]) -> Array:
    """The row of the table for each pair of pixels of a window, (pixels x pixels,) int32."""
    height, width = layer["window"]
    y, x = (each.ravel() for each in np.mgrid[:height, :width])
    rows = (y[:, None] - y + height - 1) * (2 * width - 1) + x[:, None] - x + width - 1
    return np.asarray(rows, np.int32).ravel()


def window_mask(layer: dict[str, Any]) -> Array | None:
    """What excludes pairs of pixels of shifted windows, (windows, 1, pixels, pixels), in float64.

    EXCLUDED for pairs that were not neighbours, else 0; None without a shift.
    """
    if not any(layer["shift"]):
        return None
    sizes, window, shift = layer["input_shape"][1:], layer["window"], layer["shift"]
    parts = []
    for size, extent, move in zip(sizes, window, shift):
        places = np.arange(size)
        # The last window has what entered at the other side.
        parts.append(np.where(places < size - extent, 0, np.where(places < size - move, 1, 2)))
    regions = 3 * parts[0][:, None] + parts[1]
    (height, width), (rows, columns) = sizes, window
    split = regions.reshape(height // rows, rows, width // columns, columns)
    windows = split.transpose(0, 2, 1, 3).reshape(-1, 1, rows * columns)
    return np.where(windows[..., None] == windows[..., None, :], 0.0, EXCLUDED)
