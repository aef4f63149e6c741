"""Pure functions on samples. The independent unit is the run, never the block or the step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import bootstrap

CONFIDENCE = 0.95
RESAMPLES = 9999


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

    With three runs the interval reaches from the lowest to the highest; with one there is none.
    """
    if not values:
        return Summary(runs=0, median=None, ci_low=None, ci_high=None)
    median = float(np.median(values))
    if len(values) < 2:
        return Summary(runs=1, median=median, ci_low=None, ci_high=None)
    result = bootstrap(
        (values,),
        np.median,
        n_resamples=RESAMPLES,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(0),
    )
    low, high = result.confidence_interval
    return Summary(runs=len(values), median=median, ci_low=float(low), ci_high=float(high))
