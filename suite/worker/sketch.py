"""Sketches: 256 numbers that stand for a tensor of any size when two are compared.

The count sketch of Charikar, Chen and Farach-Colton (2002), by which the AMS estimate of a norm is
taken (Alon, Matias and Szegedy 1996): value i is added to one of 256 sums, with a sign, both
drawn from a hash of i. It is linear, so that the sketch of a difference is the difference of the
sketches, and its norm is that of the tensor, with a standard deviation of 1 / sqrt(2 x 256) or
4.4 %. A tensor of up to 256 values is its own sketch, exact.
"""

from __future__ import annotations

import functools

import numpy as np

from .protocol import Array

SIZE = 256
CHUNK = 2**20  # values hashed at once


def sketch(values: Array) -> Array:
    """(min(size, 256),) float64, of the values in C order."""
    flat = values.ravel()
    if flat.size <= SIZE:
        return flat.astype(np.float64)
    sums = np.zeros(2 * SIZE)
    for start in range(0, flat.size, CHUNK):
        part = flat[start : start + CHUNK]
        places = _places(start)[: part.size]
        sums += np.bincount(places, weights=part, minlength=2 * SIZE)
    return sums[:SIZE] - sums[SIZE:]


@functools.cache
def _places(start: int) -> Array:
    """(CHUNK,) for values from `start` on: the sum each goes to, plus 256 where its sign is minus.

    The lower 9 bits of the SplitMix64 hash of i (Steele, Lea and Flood 2014).
    """
    with np.errstate(over="ignore"):
        z = np.arange(start, start + CHUNK, dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z & np.uint64(2 * SIZE - 1)).astype(np.int16)
