"""What all frameworks need of an attention: the sizes of its parts, and its angles of rotation."""

from __future__ import annotations

from typing import Any

import numpy as np

from .protocol import Array


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
