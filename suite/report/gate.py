"""Decides whether rows are as fast as before, slower, or whether too little is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from suite.report.comparison import Comparison
from suite.report.comparison_table import in_words
from suite.results.equivalence import bounds

Decision = Literal["within", "slower", "faster", "inconclusive"]


@dataclass(frozen=True, kw_only=True)
class Gate:
    """How much slower a row may be; with `both_sides`, also how much faster."""

    limit: float  # share of the speed
    both_sides: bool

    def decide(self, pair: Comparison) -> Decision:
        """`within` and `inconclusive` are different: the first is shown by an equivalence test.

        A row is slower where the interval shows that, or where a slowdown is shown whose estimate
        exceeds the limit.
        """
        interval, difference = pair.interval, pair.difference
        if interval is None or difference is None:
            return "inconclusive"
        if interval.high < self.slowest or (
            difference.verdict == "slower" and difference.slower_by > self.limit
        ):
            return "slower"
        if self.both_sides and interval.low > self.fastest:
            return "faster"
        if interval.low > self.slowest and (not self.both_sides or interval.high < self.fastest):
            return "within"
        return "inconclusive"

    def in_words(self, pair: Comparison) -> str:
        """The row with its ratio, its interval, and the number of runs that would decide."""
        name, found = pair.b.record.trial_id, pair.interval
        if found is None:
            return f"{name}: too few runs"
        words = in_words(pair)
        text = f"{name}: {f'{words}, ' if words else ''}{found.ratio:.3f} times as fast"
        text += f" ({found.low:.3f} to {found.high:.3f})"
        if self.decide(pair) != "inconclusive":
            return text
        needed = [found.runs_needed(limit) for limit in self._undecided(pair)]
        known = [each for each in needed if each is not None]
        runs = f"about {max(known)} runs" if len(known) == len(needed) else "more than 1,000 runs"
        return f"{text}; {runs} of each would decide"

    @property
    def slowest(self) -> float:
        """The least speed that is allowed, as a share of that of a."""
        return bounds(self.limit)[0]

    @property
    def fastest(self) -> float:
        """The largest one, where that is limited."""
        return bounds(self.limit)[1]

    def _undecided(self, pair: Comparison) -> Sequence[float]:
        """The limits that are within the interval."""
        assert pair.interval
        limits = (self.slowest, self.fastest) if self.both_sides else (self.slowest,)
        return [each for each in limits if pair.interval.low <= each <= pair.interval.high]
