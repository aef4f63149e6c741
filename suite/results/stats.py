"""Pure functions on samples. The independent unit is the run, never the block or the step.

SciPy is imported where it is used: that takes as long as all else with which a command starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from math import comb
from statistics import median
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
RESAMPLES = 9999
EXACT_RUNS = 24  # up to so many the bootstrap's distribution is computed, not drawn

Samples = NDArray[np.float64]
Series = Sequence[tuple[float, float]]  # of each block in turn: when, and how fast
Test = Literal["Mann-Whitney", "Wilcoxon"]
Verdict = Literal["faster", "slower", "no difference shown", "too few runs"]


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The median over runs and its bootstrap interval; null where there are too few runs."""

    runs: int
    median: float | None
    ci_low: float | None
    ci_high: float | None

    @property
    def spread(self) -> float | None:
        """Half the interval's width as a share of the median."""
        if self.median is None or self.ci_low is None or self.ci_high is None:
            return None
        return (self.ci_high - self.ci_low) / 2 / self.median


def summarise(values: Sequence[float]) -> Summary:
    """The median of the runs with its 95 % percentile-bootstrap interval (Efron 1979).

    With three or four runs it reaches from the lowest to the highest; with one there is none.
    """
    return _summarise(tuple(values))


@lru_cache  # table, warnings and rule for stopping ask for the same
def _summarise(values: tuple[float, ...]) -> Summary:
    if not values:
        return Summary(runs=0, median=None, ci_low=None, ci_high=None)
    if len(values) < 2:
        return Summary(runs=1, median=values[0], ci_low=None, ci_high=None)
    low, high = _median_interval(values)
    return Summary(runs=len(values), median=median(values), ci_low=low, ci_high=high)


def _median_interval(values: Sequence[float]) -> tuple[float, float]:
    """The percentile-bootstrap interval of the median, without drawing where it is known exactly.

    What the bootstrap approaches with ever more draws (Efron 1979, section 3).
    """
    if len(values) > EXACT_RUNS:
        return _interval((values,), np.median)
    weights = _median_weights(len(values))
    ordered = np.sort(values)
    medians = (ordered[:, None] + ordered) / 2
    place = np.argsort(medians, axis=None)
    cumulated = weights.ravel()[place].cumsum()
    tails = (1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2
    low, high = medians.ravel()[place][np.searchsorted(cumulated, tails)]
    return float(low), float(high)


@cache
def _median_weights(runs: int) -> Samples:
    """(runs, runs): how likely the two middle ones of a resample are the i-th and j-th smallest.

    With an odd number of runs they are one. Of `runs` draws a are among the first i, b among those
    after them up to the j-th, by the multinomial distribution; the two are at most i and j where
    a and a + b are at least as many as come up to them. The differences of that in i and j are the
    probabilities.
    """
    lower, upper = (runs + 1) // 2, runs // 2 + 1
    below = np.zeros((runs + 1, runs + 1))
    for i in range(1, runs + 1):
        for j in range(i, runs + 1):
            shares = i / runs, (j - i) / runs, (runs - j) / runs
            below[i, j] = sum(
                comb(runs, a) * comb(runs - a, b) * _power(shares, (a, b, runs - a - b))
                for a in range(lower, runs + 1)
                for b in range(max(0, upper - a), runs - a + 1)
            )
    # For j < i the pair (X, Y) with X <= Y is at most (i, j) just where it is at most (j, j).
    for i in range(1, runs + 1):
        below[i, :i] = np.diag(below)[:i]
    weights: Samples = np.diff(np.diff(below, axis=0), axis=1)
    return weights


def _power(shares: tuple[float, float, float], counts: tuple[int, int, int]) -> float:
    product = 1.0
    for share, count in zip(shares, counts, strict=True):
        product *= share**count
    return product


@dataclass(frozen=True, kw_only=True)
class Difference:
    """How the runs of b stand to those of a; `p_value` is null where no test could tell."""

    ratio: float  # more than 1: b is faster
    ci_low: float | None
    ci_high: float | None
    p_value: float | None
    test: Test

    @property
    def verdict(self) -> Verdict:
        """Different only where the test and the interval both say so."""
        if self.p_value is None or self.ci_low is None or self.ci_high is None:
            return "too few runs"
        if self.p_value > 1 - CONFIDENCE or self.ci_low <= 1 <= self.ci_high:
            return "no difference shown"
        return "faster" if self.ratio > 1 else "slower"


def compare(a: Sequence[float], b: Sequence[float]) -> Difference:
    """The ratio of the medians with its bootstrap interval, and the Mann-Whitney test.

    The test (Mann and Whitney 1947) asks of ranks only: one run that something disturbed counts
    as one, however slow. Raise ValueError where a side has no run.
    """
    from scipy.stats import mannwhitneyu

    if not a or not b:
        raise ValueError("a side without a run has no median")
    ratio = float(np.median(b) / np.median(a))
    if not can_differ(len(a), len(b)):
        return _untold(ratio, "Mann-Whitney")
    low, high = _interval((a, b), _ratio_of_medians)
    # "auto": exact where a side has at most 8 runs and no two are equal, else by the normal law.
    p_value = float(mannwhitneyu(a, b, alternative="two-sided").pvalue)
    return Difference(ratio=ratio, ci_low=low, ci_high=high, p_value=p_value, test="Mann-Whitney")


def compare_rounds(ratios: Sequence[float]) -> Difference:
    """The median of b over a in each round with its bootstrap interval, and the signed-rank test.

    For runs that were disturbed alike (Wilcoxon 1945). Raise ValueError where there is no round.
    """
    from scipy.stats import wilcoxon

    if not ratios:
        raise ValueError("no round, no median")
    ratio = float(np.median(ratios))
    if 2 / 2 ** len(ratios) > 1 - CONFIDENCE:
        return _untold(ratio, "Wilcoxon")
    low, high = _interval((ratios,), np.median)
    p_value = float(wilcoxon(np.log(ratios)).pvalue)
    return Difference(ratio=ratio, ci_low=low, ci_high=high, p_value=p_value, test="Wilcoxon")


def interleaved_ratio(a: Series, b: Series) -> float | None:
    """The rate of b over that of a in one round, of processes that took turns.

    Each block is set beside the other's rate at that time, interpolated between the other's blocks
    before and after it: what slows the machine for longer than a turn cancels. It is the geometric
    mean over all blocks of both that have such neighbours; None where none has.
    """
    gains = np.concatenate([_gains(b, over=a), -_gains(a, over=b)])
    return float(np.exp(gains.mean())) if gains.size else None


def _gains(series: Series, over: Series) -> Samples:
    """Log ratio of each block's rate to the other's at that time, where that is known."""
    times, rates = _columns(series)
    other_times, other_rates = _columns(over)
    known = (times > other_times.min(initial=np.inf)) & (times < other_times.max(initial=-np.inf))
    if not known.any():
        return np.empty(0)
    gains: Samples = rates[known] - np.interp(times[known], other_times, other_rates)
    return gains


def _columns(series: Series) -> tuple[Samples, Samples]:
    """Times, and logarithms of rates."""
    times, rates = np.array(series, dtype=np.float64).reshape(-1, 2).T
    return times, np.log(rates)


def _untold(ratio: float, test: Test) -> Difference:
    return Difference(ratio=ratio, ci_low=None, ci_high=None, p_value=None, test=test)


def can_differ(runs_a: int, runs_b: int) -> bool:
    """Whether the test could tell so few runs apart, were each of a slower than each of b."""
    return 2 / comb(runs_a + runs_b, runs_a) <= 1 - CONFIDENCE


def _ratio_of_medians(a: Samples, b: Samples, axis: int) -> Samples:
    ratio: Samples = np.median(b, axis=axis) / np.median(a, axis=axis)
    return ratio


def _interval(samples: tuple[Sequence[float], ...], statistic: Any) -> tuple[float, float]:
    """The percentile-bootstrap interval of a statistic; each sample is drawn from by itself."""
    from scipy.stats import bootstrap

    result = bootstrap(
        samples,
        statistic,
        n_resamples=RESAMPLES,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(0),
    )
    low, high = result.confidence_interval
    return float(low), float(high)
