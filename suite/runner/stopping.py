"""Decides when a trial gets no further run: its interval is narrow, or a maximum is reached."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from suite.manifests.workloads import Repeats
from suite.protocol.plan import Plan, Run, Trial
from suite.results import stats
from suite.results.metric import values_of
from suite.results.record import Record

TRANSIENT = ("EngineError", "EngineInterfered")  # errors that the next run may not have
StopReason = Literal["interval narrow", "run limit", "time budget spent", "a run failed"]


def stop_reason(runs: Sequence[Record], repeats: Repeats, *, spent_s: float) -> StopReason | None:
    """Why a trial with these runs gets no further run; None where it gets one.

    `spent_s` is the duration of all runs of the plan so far.
    """
    if any(run.status == "oom" or _could_not_start(run) for run in runs):
        return "a run failed"  # so would the others
    if runs and _exceeds(runs, repeats.trial_budget_s):
        return "time budget spent"
    if len(runs) < repeats.at_least:
        return None
    values = values_of(runs)
    if any(run.status != "ok" for run in runs):
        return "a run failed"
    spread = stats.summarise([*values.values()]).spread
    if spread is not None and spread <= repeats.spread:
        return "interval narrow"
    if len(runs) >= repeats.at_most:
        return "run limit"
    if repeats.budget_s is not None and spent_s >= repeats.budget_s:
        return "time budget spent"
    return None


def _could_not_start(run: Record) -> bool:
    """Whether the worker ended before its framework was imported."""
    worker_ran = run.log is not None and run.error is not None
    transient = run.error is not None and run.error.error_class in TRANSIENT
    return run.status == "failed" and worker_ran and run.framework_version is None and not transient


def _exceeds(runs: Sequence[Record], budget_s: float | None) -> bool:
    """Whether another run, as long as the last one, would exceed the budget of the trial."""
    if budget_s is None:
        return False
    last = max(runs, key=lambda run: run.repeat)  # files are in the order of their names
    return sum(map(duration_s, runs)) + _worker_s(last) > budget_s


def duration_s(run: Record) -> float:
    """The duration of a run with its closing proof; interleaved runs share theirs."""
    closing = run.parity.closing
    compared_s = (closing.duration_s or 0.0) if closing and not closing.batch_size else 0.0
    return _worker_s(run) + compared_s


def _worker_s(run: Record) -> float:
    """The duration of a run's worker; interleaved runs share theirs."""
    return (run.times.total_s or 0.0) / run.interleaved


class Finished:
    """The finished runs of a plan: their records by trial, and how long they took together."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.by_trial: dict[str, list[Record]] = {}
        self.spent_s = 0.0
        self._names: set[str] = set()
        self.add(records)

    def add(self, records: Iterable[Record]) -> None:
        """Add runs that have just finished."""
        for record in records:
            self.by_trial.setdefault(record.trial_id, []).append(record)
            self._names.add(record.name)
            self.spent_s += duration_s(record)

    def __contains__(self, run: Run) -> bool:
        return run.name in self._names


def needed(plan: Plan, group: Sequence[Run], finished: Finished) -> list[Run]:
    """The runs of a group without a record, if one of its trials needs more runs; else none."""
    left = [run for run in group if run not in finished]
    return left if any(_needs_more(plan, run, finished) for run in left) else []


def without_partial_groups(plan: Plan, records: Iterable[Record]) -> list[Record]:
    """The records without those of interleaved runs whose round was not recorded as a whole.

    An interruption between two of them leaves the others; a resume repeats the round.
    """
    records = list(records)
    if not plan.interleave:
        return records
    known = {record.name for record in records}
    groups = ({run.name for run in group} for group in plan.groups)
    partial = {name for group in groups if not group <= known for name in group}
    return [record for record in records if record.name not in partial]


def _needs_more(plan: Plan, run: Run, finished: Finished) -> bool:
    runs = finished.by_trial.get(run.trial.trial_id, [])
    return stop_reason(runs, repeats_of(plan, run.trial), spent_s=finished.spent_s) is None


def repeats_of(plan: Plan, trial: Trial) -> Repeats:
    """How many runs a trial of the plan gets, with the trial's own budget."""
    return plan.repeats.model_copy(update={"trial_budget_s": trial.budget_s})
