"""When a trial has had runs enough: its interval is narrow, or there may be no more. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from suite import stats
from suite.manifest import Repeats
from suite.plan import Plan, Run
from suite.records import Record

Enough = Literal["narrow enough", "most runs", "budget spent", "a run failed"]


def enough(runs: Sequence[Record], repeats: Repeats, *, spent_s: float) -> Enough | None:
    """Why a trial that has had these runs gets no other; None where it does.

    `spent_s` is what all runs of the plan have taken.
    """
    if len(runs) < repeats.at_least:
        return None
    rates = [run.samples_per_s for run in runs if run.status == "ok" and run.samples_per_s]
    if len(rates) < len(runs):
        return "a run failed"
    spread = stats.summarise(rates).spread
    if spread is not None and spread <= repeats.spread:
        return "narrow enough"
    if len(runs) >= repeats.at_most:
        return "most runs"
    if repeats.budget_s is not None and spent_s >= repeats.budget_s:
        return "budget spent"
    return None


def wanted(plan: Plan, run: Run, done: Iterable[Record]) -> bool:
    """Whether a planned run is still to be done."""
    done = list(done)
    runs = [record for record in done if record.trial_id == run.trial.trial_id]
    if run.repeat in {record.repeat for record in runs}:
        return False
    return enough(runs, plan.repeats, spent_s=spent_s(done)) is None


def spent_s(done: Iterable[Record]) -> float:
    return sum(record.times.total_s or 0.0 for record in done)
