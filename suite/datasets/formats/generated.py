"""A generated table, identical to the last bit on every machine.

Each row has 16 features and a class. A small random network (the teacher) predicts the class from
the features, with noise added to its scores, so a model can learn it, but not perfectly.

All arithmetic uses integers. The random integers come from numpy's RandomState, whose streams never
change. With floats, a matrix product would add in another order on another CPU, and the last bit of
a sum could change a class.
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
SCALE = 256  # this integer represents 1.0
NOISE = 40  # with it the teacher predicts 86 % of the classes, a linear model 64 %
Integers = NDArray[np.int64]


def arrays(manifest: DatasetManifest, raw: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    """The prepared arrays, by name; the folder `raw` is not used."""
    random = np.random.RandomState(SEED)
    (features,) = manifest.shape
    teacher = _Teacher(random, features, manifest.classes)
    for split in SPLITS:
        values = _normal(random, manifest.samples[split], features)
        yield f"{split}_inputs", (values / SCALE).astype(np.float32)  # exact: 11 bits over 256
        yield f"{split}_labels", teacher.classes(random, values).astype(np.int32)


class _Teacher:
    """features -> HIDDEN units with ReLU -> classes; weights are integers from -8 to 8."""

    def __init__(self, random: np.random.RandomState, features: int, classes: int) -> None:
        self._first = random.randint(-8, 9, (features, HIDDEN), np.int64)
        self._second = random.randint(-8, 9, (HIDDEN, classes), np.int64)
        # The mean is subtracted from the scores; without that, one class would nearly always win.
        self._mean = self._scores(_normal(random, 10_000, features)).sum(0) // 10_000

    def classes(self, random: np.random.RandomState, values: Integers) -> Integers:
        scores = self._scores(values) - self._mean
        noise = _normal(random, *scores.shape) * NOISE
        return np.asarray((scores + noise).argmax(1))

    def _scores(self, values: Integers) -> Integers:
        return np.asarray(np.maximum(values @ self._first, 0) @ self._second)


def _normal(random: np.random.RandomState, rows: int, columns: int) -> Integers:
    """Nearly normal integers of mean 0 and deviation SCALE: sums of twelve random bytes."""
    total = np.full((rows, columns), -12 * 255 // 2, np.int64)
    for _ in range(12):
        total += random.randint(0, 256, (rows, columns), np.uint8)
    return total
