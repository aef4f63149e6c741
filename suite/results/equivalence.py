"""Equivalence of paired results: two one-sided t-tests (TOST, Schuirmann 1987).

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
