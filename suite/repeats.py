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


def wanted(plan: Plan, group: Sequence[Run], done: Iterable[Record]) -> list[Run]:
    """Those of a plan's group of runs that are still to be done: all of it, or none."""
    done = list(done)
    complete = {record.name for record in done}
    left = [run for run in group if run.name not in complete]
    return left if any(_uncertain(plan, run, done) for run in left) else []


def _uncertain(plan: Plan, run: Run, done: Sequence[Record]) -> bool:
    runs = [record for record in done if record.trial_id == run.trial.trial_id]
    return enough(runs, plan.repeats, spent_s=spent_s(done)) is None


def spent_s(done: Iterable[Record]) -> float:
    """What all runs have taken together; those that took turns passed the same time."""
    return sum((record.times.total_s or 0.0) / record.turns for record in done)
