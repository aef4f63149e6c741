"""Equivalence by two one-sided t-tests (TOST, Schuirmann 1987): of paired results, and of ratios.

SciPy is imported where it is used: its import takes as long as the rest of a command's start.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Literal

ALPHA = 0.05  # of each one-sided test
# Two pairs differ equally by chance too often: an accuracy on n images is a multiple of 1/n.
FEWEST = 3
Verdict = Literal["yes", "no", "not shown", "too few seeds"]


@dataclass(frozen=True, kw_only=True)
class Equivalence:
    """The mean of paired differences, its 90 % interval, and whether it is within ±`margin`.

    All values have the unit of the differences; those that so few pairs do not have are None.
    """

    pairs: int
    margin: float
    mean: float | None
    ci_low: float | None
    ci_high: float | None

    @property
    def verdict(self) -> Verdict:
        """`yes` where equivalence is shown, `no` where a larger difference is shown.

        Both one-sided tests reject at ALPHA exactly where the interval of 1 - 2 ALPHA is within the
        margin. The interval is outside exactly where a one-sided test shows a larger difference.
        """
        if self.pairs < FEWEST or self.ci_low is None or self.ci_high is None:
            return "too few seeds"
        if -self.margin < self.ci_low and self.ci_high < self.margin:
            return "yes"
        if self.ci_low > self.margin or self.ci_high < -self.margin:
            return "no"
        return "not shown"


def paired(differences: Sequence[float], *, margin: float) -> Equivalence:
    """The test of the mean of `differences`, one of each independent pair, against ±`margin`."""
    pairs = len(differences)
    mean = fmean(differences) if pairs else None
    low = high = None
    if mean is not None and pairs > 1:
        from scipy.stats import t

        half = float(t.ppf(1 - ALPHA, pairs - 1)) * stdev(differences) / math.sqrt(pairs)
        low, high = mean - half, mean + half
    return Equivalence(pairs=pairs, margin=margin, mean=mean, ci_low=low, ci_high=high)


POWER = 0.8  # the probability with which so many more runs decide


def bounds(share: float) -> tuple[float, float]:
    """The ratios that differ from 1 by this share: each is the inverse of the other."""
    return 1 - share, 1 / (1 - share)


@dataclass(frozen=True, kw_only=True)
class RatioInterval:
    """The 90 % interval of the geometric mean ratio of b to a: each side is a one-sided 95 % limit.

    It is computed on logarithms, so a ratio and its inverse have the same interval.
    """

    ratio: float
    low: float
    high: float
    deviation: float  # of one run's log ratio

    def runs_needed(self, limit: float) -> int | None:
        """About how many runs on each side show that the ratio is above or below `limit`.

        None where the ratio is so close to the limit that no affordable number does. The formula is
        that of a one-sided test with normal values, n = ((z_alpha + z_beta) sd / d)^2.
        """
        from scipy.stats import norm

        distance = abs(math.log(self.ratio / limit))
        factor = float(norm.ppf(1 - ALPHA) + norm.ppf(POWER)) * self.deviation
        if distance * MOST_RUNS**0.5 < factor:
            return None
        return math.ceil((factor / distance) ** 2) + 1


MOST_RUNS = 1000


def ratio_of_runs(a: Sequence[float], b: Sequence[float]) -> RatioInterval | None:
    """The ratio of independent runs, by Welch's t interval; None with fewer than two on a side."""
    return _of_products(over=[b], under=[a])


def ratio_of_ratios(
    a: tuple[Sequence[float], Sequence[float]], b: tuple[Sequence[float], Sequence[float]]
) -> RatioInterval | None:
    """The ratio of b's second side to its first, over the same ratio of a; as `ratio_of_runs`."""
    return _of_products(over=[b[1], a[0]], under=[b[0], a[1]])


def _of_products(
    *, over: Sequence[Sequence[float]], under: Sequence[Sequence[float]]
) -> RatioInterval | None:
    """The product of the geometric means of `over`, divided by that of `under`."""
    sides = [*over, *under]
    if min(map(len, sides)) < 2:
        return None
    from scipy.stats import t

    logs = [[math.log(each) for each in side] for side in sides]
    means = [fmean(side) for side in logs]
    variances = [stdev(side) ** 2 for side in logs]
    parts = [variance / len(side) for variance, side in zip(variances, logs, strict=True)]
    error = math.sqrt(sum(parts))
    # Welch (1947), Satterthwaite (1946): the degrees of freedom where the variances differ.
    weights = (part**2 / (len(side) - 1) for part, side in zip(parts, logs, strict=True))
    free = sum(parts) ** 2 / sum(weights) if error else 1.0
    half = float(t.ppf(1 - ALPHA, free)) * error
    mean = sum(means[: len(over)]) - sum(means[len(over) :])
    return _interval(mean, half, math.sqrt(sum(variances)))


def ratio_of_deviations(a: Sequence[float], b: Sequence[float]) -> RatioInterval | None:
    """The ratio of b's relative standard deviation to a's, by the F distribution of variances.

    The deviations are those of the logarithms. None with fewer than two values on a side, or where
    the values of a side are equal.
    """
    if min(len(a), len(b)) < 2:
        return None
    from scipy.stats import f

    deviations = [stdev(math.log(each) for each in side) for side in (a, b)]
    if min(deviations) == 0:
        return None
    ratio, free_a, free_b = deviations[1] / deviations[0], len(a) - 1, len(b) - 1
    # The ratio of the sample variances, over that of the variances, is distributed as F.
    low, high = (float(f.ppf(share, free_b, free_a)) for share in (1 - ALPHA, ALPHA))
    return RatioInterval(
        ratio=ratio,
        low=ratio / math.sqrt(low),
        high=ratio / math.sqrt(high),
        deviation=math.nan,  # of a run: there is one
    )


def ratio_of_rounds(ratios: Sequence[float]) -> RatioInterval | None:
    """The ratio of interleaved runs from that of each round; None with fewer than two rounds."""
    if len(ratios) < 2:
        return None
    from scipy.stats import t

    logs = [math.log(each) for each in ratios]
    half = float(t.ppf(1 - ALPHA, len(logs) - 1)) * stdev(logs) / math.sqrt(len(logs))
    return _interval(fmean(logs), half, stdev(logs))


def _interval(mean: float, half: float, deviation: float) -> RatioInterval:
    return RatioInterval(
        ratio=math.exp(mean),
        low=math.exp(mean - half),
        high=math.exp(mean + half),
        deviation=deviation,
    )
