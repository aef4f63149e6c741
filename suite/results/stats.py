"""Statistics of runs. The independent unit is the run, never the block or the step.

SciPy is imported where it is used: its import takes as long as the rest of a command's start.
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
RANGE_RUNS = 5  # up to this number, the interval reaches from the lowest run to the highest
EXACT_RUNS = 24  # up to this number, the bootstrap's distribution is computed, not drawn

Samples = NDArray[np.float64]
Series = Sequence[tuple[float, float]]  # (time in s, samples per second) of each block in order
Test = Literal["Mann-Whitney", "Wilcoxon"]
Verdict = Literal["faster", "slower", "no difference shown", "too few runs"]


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The median over runs and its bootstrap interval; None where there are too few runs."""

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

    @property
    def range_confidence(self) -> float | None:
        """The confidence of an interval from the lowest run to the highest; None for any other.

        It misses the true median where all runs are on one side of it: 1 - 2^(1 - runs).
        """
        return 1 - 2.0 ** (1 - self.runs) if 2 <= self.runs <= RANGE_RUNS else None

    @property
    def confidence(self) -> float:
        """The confidence of the interval, whichever kind it is."""
        return self.range_confidence or CONFIDENCE


def summarise(values: Sequence[float]) -> Summary:
    """The median of the runs with its 95 % percentile-bootstrap interval (Efron 1979).

    With two to five runs it reaches from the lowest to the highest; one run has none.
    """
    return _summarise(tuple(values))


@lru_cache  # the table, the warnings and the stop reason need the same summaries
def _summarise(values: tuple[float, ...]) -> Summary:
    if not values:
        return Summary(runs=0, median=None, ci_low=None, ci_high=None)
    if len(values) < 2:
        return Summary(runs=1, median=values[0], ci_low=None, ci_high=None)
    low, high = _median_interval(values)
    return Summary(runs=len(values), median=median(values), ci_low=low, ci_high=high)


def _median_interval(values: Sequence[float]) -> tuple[float, float]:
    """The percentile-bootstrap interval of the median, for few runs without drawing.

    It is then the interval of infinitely many draws (Efron 1979, section 3).
    """
    if len(values) > EXACT_RUNS:
        return _interval((values,), np.median)
    weights = _median_weights(len(values))
    ordered = np.sort(values)
    medians = (ordered[:, None] + ordered) / 2
    order = np.argsort(medians, axis=None)
    cumulated = weights.ravel()[order].cumsum()
    tails = (1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2
    low, high = medians.ravel()[order][np.searchsorted(cumulated, tails)]
    return float(low), float(high)


@cache
def _median_weights(runs: int) -> Samples:
    """(runs, runs): the probability that the middle two of a resample are the runs i and j.

    Runs are numbered in ascending order; with an odd number of runs, the middle two are one. In a
    resample, a draws are among the runs up to i and b among those after i up to j, by the
    multinomial distribution. The lower middle one is at most i where a is at least its rank, the
    upper one at most j where a + b is at least its rank. `below` has the probability of both; its
    differences along i and j are the result.
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
    # For j < i, a pair (X, Y) with X <= Y is at most (i, j) if and only if it is at most (j, j).
    for i in range(1, runs + 1):
        below[i, :i] = np.diag(below)[:i]
    weights: Samples = np.diff(np.diff(below, axis=0), axis=1)
    return weights


def _power(shares: tuple[float, float, float], counts: tuple[int, int, int]) -> float:
    """The product of the shares, each to the power of its count."""
    product = 1.0
    for share, count in zip(shares, counts, strict=True):
        product *= share**count
    return product


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The runs of b compared with those of a; `p_value` is None where there are too few runs."""

    ratio: float  # of b to a
    ci_low: float | None
    ci_high: float | None
    p_value: float | None
    test: Test
    lower_is_better: bool = False  # of latencies: a ratio below 1 is faster; of rates, one above 1

    @property
    def slower_by(self) -> float:
        """The share by which b is slower: of the rate it lost, or of the latency it gained."""
        return self.ratio - 1 if self.lower_is_better else 1 - self.ratio

    @property
    def verdict(self) -> Verdict:
        """A difference is shown only where both the test and the interval show it."""
        if self.p_value is None or self.ci_low is None or self.ci_high is None:
            return "too few runs"
        if self.p_value > 1 - CONFIDENCE or self.ci_low <= 1 <= self.ci_high:
            return "no difference shown"
        return "slower" if self.slower_by > 0 else "faster"


def compare(a: Sequence[float], b: Sequence[float]) -> Difference:
    """The ratio of the medians with its bootstrap interval, and the Mann-Whitney test.

    The test (Mann and Whitney 1947) uses only ranks, so a disturbed run has no more weight than
    any other, however slow it is. Raise ValueError where a side has no run.
    """
    from scipy.stats import mannwhitneyu

    if not a or not b:
        raise ValueError("a side without a run has no median")
    ratio = float(np.median(b) / np.median(a))
    if not can_differ(len(a), len(b)):
        return _untested(ratio, "Mann-Whitney")
    low, high = _interval((a, b), _ratio_of_medians)
    # SciPy computes it exactly where a side has at most 8 runs and no two are equal, else with the
    # normal approximation.
    p_value = float(mannwhitneyu(a, b, alternative="two-sided").pvalue)
    return Difference(ratio=ratio, ci_low=low, ci_high=high, p_value=p_value, test="Mann-Whitney")


def compare_rounds(ratios: Sequence[float]) -> Difference:
    """The median over rounds of the ratio of b to a, its bootstrap interval, and the Wilcoxon test.

    The signed-rank test (Wilcoxon 1945) is for pairs: the runs of a round had the same
    disturbances. Raise ValueError where there is no round.
    """
    from scipy.stats import wilcoxon

    if not ratios:
        raise ValueError("there is no round, so there is no median")
    ratio = float(np.median(ratios))
    if 2 / 2 ** len(ratios) > 1 - CONFIDENCE:
        return _untested(ratio, "Wilcoxon")
    low, high = _interval((ratios,), np.median)
    p_value = float(wilcoxon(np.log(ratios)).pvalue)
    return Difference(ratio=ratio, ci_low=low, ci_high=high, p_value=p_value, test="Wilcoxon")


def interleaved_ratio(a: Series, b: Series) -> float | None:
    """The ratio of the rate of b to that of a in one round of interleaved runs.

    Each block is compared with the other run's rate at that time, interpolated between the other
    run's blocks before and after it: a disturbance that is longer than a block cancels out. The
    result is the geometric mean over all blocks of both that have such neighbours; None where none
    has.
    """
    gains = np.concatenate([_gains(b, over=a), -_gains(a, over=b)])
    return float(np.exp(gains.mean())) if gains.size else None


def _gains(series: Series, over: Series) -> Samples:
    """The log ratio of each block's rate to the other run's at that time, where that is known."""
    times, rates = _columns(series)
    other_times, other_rates = _columns(over)
    known = (times > other_times.min(initial=np.inf)) & (times < other_times.max(initial=-np.inf))
    if not known.any():
        return np.empty(0)
    gains: Samples = rates[known] - np.interp(times[known], other_times, other_rates)
    return gains


def _columns(series: Series) -> tuple[Samples, Samples]:
    """The times, and the logarithms of the rates."""
    times, rates = np.array(series, dtype=np.float64).reshape(-1, 2).T
    return times, np.log(rates)


def _untested(ratio: float, test: Test) -> Difference:
    """A difference of too few runs."""
    return Difference(ratio=ratio, ci_low=None, ci_high=None, p_value=None, test=test)


def can_differ(runs_a: int, runs_b: int) -> bool:
    """Whether the test could show a difference of so few runs, if every a were slower than b.

    With fewer than two runs a side has no bootstrap interval.
    """
    enough = min(runs_a, runs_b) >= 2
    return enough and 2 / comb(runs_a + runs_b, runs_a) <= 1 - CONFIDENCE


def _ratio_of_medians(a: Samples, b: Samples, axis: int) -> Samples:
    ratio: Samples = np.median(b, axis=axis) / np.median(a, axis=axis)
    return ratio


def _interval(samples: tuple[Sequence[float], ...], statistic: Any) -> tuple[float, float]:
    """The percentile-bootstrap interval of a statistic; each sample is resampled separately."""
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
