"""Change points of a short series: where its level changed, by Pettitt's test.

A. N. Pettitt, "A non-parametric approach to the change-point problem", Applied Statistics 28
(1979), 126-135. The test uses only ranks, so one disturbed value has no more weight than any
other. It looks for one change; it is applied again to the values before and after each change that
it shows (binary segmentation, Vostrikova 1981).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.05  # the probability of a change point in a series without one
MIN_VALUES = 8  # fewer cannot show a change at this level
# Up to this length, the distribution of the statistic is that of random orders; beyond it,
# Pettitt's approximation is used, which is too careful for short series.
MAX_DRAWN = 60
DRAWS = 9999


@dataclass(frozen=True, kw_only=True)
class ChangePoint:
    """The level changes before the value at `position`, counted from 0."""

    position: int
    p_value: float
    ratio: float  # the median after the change over that before it, up to the next changes


def change_points(values: Sequence[float]) -> list[ChangePoint]:
    """The change points of a series in order of time."""
    positions = sorted(_split(values, 0))
    edges = [0, *(position for position, _ in positions), len(values)]
    return [
        ChangePoint(
            position=position,
            p_value=p_value,
            ratio=median(values[position : edges[number + 2]])
            / median(values[edges[number] : position]),
        )
        for number, (position, p_value) in enumerate(positions)
    ]


def _split(values: Sequence[float], start: int) -> list[tuple[int, float]]:
    """Position and p-value of each change; `start` is the position of the first value."""
    if len(values) < MIN_VALUES:
        return []
    position, p_value = pettitt(values)
    if p_value > LEVEL:
        return []
    before = _split(values[:position], start)
    after = _split(values[position:], start + position)
    return [*before, (start + position, p_value), *after]


def pettitt(values: Sequence[float]) -> tuple[int, float]:
    """The most likely position of one change, and the p-value of there being none.

    Equal values have their mean rank; the test is then slightly too careful. At least two values.
    """
    count = len(values)
    differences = np.abs(_statistics(_ranks(values)[None, :]))[0]
    largest = float(differences.max())
    position = int(differences.argmax()) + 1
    if count > MAX_DRAWN:
        return position, min(1.0, float(2 * np.exp(-6 * largest**2 / (count**3 + count**2))))
    as_large = DRAWS - int(np.searchsorted(_drawn(count), largest - 1e-9))
    return position, (1 + as_large) / (1 + DRAWS)


def _ranks(values: Sequence[float]) -> NDArray[np.float64]:
    """The rank of each value from 1. SciPy has it too, but its import takes half a second."""
    ordered = np.sort(values)
    below = np.searchsorted(ordered, values, side="left")
    ranks: NDArray[np.float64] = (below + np.searchsorted(ordered, values, side="right") + 1) / 2
    return ranks


def _statistics(ranks: NDArray[np.float64]) -> NDArray[np.float64]:
    """(series, values) -> (series, values - 1): U of each position, 2 W_t - t (n + 1)."""
    count = ranks.shape[1]
    position = np.arange(1, count)
    statistics: NDArray[np.float64] = 2 * ranks.cumsum(axis=1)[:, :-1] - position * (count + 1)
    return statistics


@cache
def _drawn(count: int) -> NDArray[np.float64]:
    """The sorted statistics of DRAWS random orders of so many different values."""
    orders = np.tile(np.arange(1.0, count + 1), (DRAWS, 1))
    orders = np.random.default_rng(0).permuted(orders, axis=1)
    return np.sort(np.abs(_statistics(orders)).max(axis=1))
