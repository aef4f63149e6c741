"""Compares rows of a run with the same rows measured again, perhaps on another machine.

On an equal machine rates are compared; on another one, whose rates differ, the ratios of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from suite.report.summary import TrialSummary
from suite.results.equivalence import RatioInterval, bounds, ratio_of_ratios, ratio_of_runs

BOUND = 0.2  # by which a figure may differ between two measurements
Agreement = Literal["agrees", "differs", "inconclusive"]


@dataclass(frozen=True, kw_only=True)
class Again:
    """A row, measured again; `change` is that of its rate, or of its ratio to the first row."""

    then: TrialSummary
    now: TrialSummary
    change: RatioInterval | None  # None: not compared, or fewer than two runs on a side
    compared: bool  # not the first row where ratios are
    bound: float

    @property
    def proof(self) -> Agreement:
        """Whether it is proven both times, or neither time."""
        return "agrees" if self.then.parity.proven == self.now.parity.proven else "differs"

    @property
    def figure(self) -> Agreement:
        """Whether the interval of the change is within the bound, beyond it, or reaches over it."""
        if self.change is None:
            return "inconclusive" if self.compared else "agrees"
        low, high = bounds(self.bound)
        if low < self.change.low and self.change.high < high:
            return "agrees"
        beyond = self.change.high < low or self.change.low > high
        return "differs" if beyond else "inconclusive"


def compare(
    then: Sequence[TrialSummary],
    now: Sequence[TrialSummary],
    *,
    bound: float = BOUND,
    rates: bool = False,
) -> list[Again]:
    """The rows of `now` with those of `then`; both have the same trials.

    With `rates`, each rate is compared. Else the ratio of each row to the first of its workload.
    """
    before = {each.record.trial_id: each for each in then}
    firsts: dict[object, TrialSummary] = {}
    found = []
    for row in now:
        first = firsts.setdefault((row.record.workload, row.record.device), row)
        old, base = before[row.record.trial_id], before[first.record.trial_id]
        change = (
            ratio_of_runs(_values(old), _values(row))
            if rates
            else ratio_of_ratios((_values(base), _values(old)), (_values(first), _values(row)))
        )
        compared = rates or first is not row
        found.append(
            Again(
                then=old,
                now=row,
                change=change if compared else None,
                compared=compared,
                bound=bound,
            )
        )
    return found


def _values(trial: TrialSummary) -> list[float]:
    return [*trial.values.values()]
