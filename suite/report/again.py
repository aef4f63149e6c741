"""Compares rows of a run with the same rows measured again, perhaps on another machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from suite.report.summary import TrialSummary
from suite.results.equivalence import RatioInterval, bounds, ratio_of_ratios

BOUND = 0.2  # by which a ratio of two rows may differ between two measurements
Agreement = Literal["agrees", "differs", "cannot tell"]


@dataclass(frozen=True, kw_only=True)
class Again:
    """A row, measured again; `change` is that of its ratio to the first row of the comparison."""

    then: TrialSummary
    now: TrialSummary
    change: RatioInterval | None  # None for the first row, and with fewer than two runs

    @property
    def proof(self) -> Agreement:
        """Whether it is proven both times, or neither time."""
        return "agrees" if self.then.parity.proven == self.now.parity.proven else "differs"

    @property
    def ratio(self) -> Agreement:
        """Whether the interval of the change is within the bound, beyond it, or reaches over it."""
        if self.change is None:
            return "cannot tell"
        low, high = bounds(BOUND)
        if low < self.change.low and self.change.high < high:
            return "agrees"
        beyond = self.change.high < low or self.change.low > high
        return "differs" if beyond else "cannot tell"


def compare(then: Sequence[TrialSummary], now: Sequence[TrialSummary]) -> list[Again]:
    """The rows of `now` with those of `then`; both have the same trials.

    Ratios of rows are compared, not rates: another machine has other rates.
    """
    before = {each.record.trial_id: each for each in then}
    first, *others = [(before[each.record.trial_id], each) for each in now]
    return [
        Again(then=first[0], now=first[1], change=None),
        *(Again(then=a, now=b, change=_change(first, (a, b))) for a, b in others),
    ]


def _change(
    first: tuple[TrialSummary, TrialSummary], other: tuple[TrialSummary, TrialSummary]
) -> RatioInterval | None:
    then, now = (
        ([*first[side].values.values()], [*other[side].values.values()]) for side in (0, 1)
    )
    return ratio_of_ratios(then, now)
