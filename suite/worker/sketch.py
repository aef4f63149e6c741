"""Sketches: 256 numbers that represent a tensor of any size in comparisons.

A sketch is the count sketch of Charikar, Chen and Farach-Colton (2002), as in the AMS estimate of
a norm (Alon, Matias and Szegedy 1996). Value i is added to one of 256 sums, with a sign; a hash of
i determines both. Sketching is linear: the sketch of a difference is the difference of the
sketches. The norm of a sketch estimates the norm of the tensor with a standard deviation of
1 / sqrt(2 x 256), or 4.4 %. The sketch of a tensor of up to 256 values is the tensor itself.
"""

from __future__ import annotations

import functools

import numpy as np

from .protocol import Array

SIZE = 256
CHUNK = 2**20  # values hashed at once


def sketch(values: Array) -> Array:
    """The sketch (min(size, 256),) float64 of the values in C order."""
    flat = values.ravel()
    if flat.size <= SIZE:
        return flat.astype(np.float64)
    sums = np.zeros(2 * SIZE)
    for start in range(0, flat.size, CHUNK):
        part = flat[start : start + CHUNK]
        bins = _bins(start)[: part.size]
        sums += np.bincount(bins, weights=part, minlength=2 * SIZE)
    return sums[:SIZE] - sums[SIZE:]


@functools.cache
def _bins(start: int) -> Array:
    """(CHUNK,): the sum of each value from `start` on, plus 256 where its sign is minus.

    It is the lower 9 bits of the SplitMix64 hash of i (Steele, Lea and Flood 2014).
    """
    with np.errstate(over="ignore"):
        z = np.arange(start, start + CHUNK, dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z & np.uint64(2 * SIZE - 1)).astype(np.int16)
