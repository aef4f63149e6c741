"""A made-up table, the same to the last bit on every machine.

Each row is 16 features and a class. The class is what a small random network (the teacher) says of
the row, with noise: so a model can learn it, but not perfectly.

All arithmetic is on integers, and the random integers come from numpy's RandomState, whose streams
are frozen. Floats would not do: a matrix product adds in another order on another CPU, and the
last bit of its sum may decide a class.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suite.manifests.datasets import SPLITS, DatasetManifest

SEED = 2016
HIDDEN = 24
SCALE = 256  # an integer of this size is 1.0
NOISE = 40  # the teacher itself is then right for 86 % of the rows, a linear model for 64 %
Integers = NDArray[np.int64]


def arrays(manifest: DatasetManifest, raw: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    """The prepared arrays, by name; there is nothing to be had from the folder `raw`."""
    random = np.random.RandomState(SEED)
    (features,) = manifest.shape
    teacher = _Teacher(random, features, manifest.classes)
    for split in SPLITS:
        values = _normal(random, manifest.samples[split], features)
        yield f"{split}_inputs", (values / SCALE).astype(np.float32)  # exact: 11 bits over 256
        yield f"{split}_labels", teacher.classes(random, values).astype(np.int32)


class _Teacher:
    """features -> HIDDEN units with a rectifier -> classes; weights from -8 to 8."""

    def __init__(self, random: np.random.RandomState, features: int, classes: int) -> None:
        self._first = random.randint(-8, 9, (features, HIDDEN), np.int64)
        self._second = random.randint(-8, 9, (HIDDEN, classes), np.int64)
        # Scores about their mean over many rows, or one class would win nearly always.
        self._mean = self._scores(_normal(random, 10_000, features)).sum(0) // 10_000

    def classes(self, random: np.random.RandomState, values: Integers) -> Integers:
        scores = self._scores(values) - self._mean
        noise = _normal(random, *scores.shape) * NOISE
        return np.asarray((scores + noise).argmax(1))

    def _scores(self, values: Integers) -> Integers:
        return np.asarray(np.maximum(values @ self._first, 0) @ self._second)


def _normal(random: np.random.RandomState, rows: int, columns: int) -> Integers:
    """Integers of mean 0 and deviation SCALE, nearly normal: the sum of twelve random bytes."""
    total = np.full((rows, columns), -12 * 255 // 2, np.int64)
    for _ in range(12):
        total += random.randint(0, 256, (rows, columns), np.uint8)
    return total
