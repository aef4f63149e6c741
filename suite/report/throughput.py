"""Scenario offline: the batch sizes of each configuration, and the knee of its throughput."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from suite.report.summary import TrialSummary

KNEE_SHARE = 0.95  # of the highest rate: a larger batch gains less than the rest
UNTRIED = ("oom", "skipped")  # statuses of batch sizes that did not fit, or were not tried

Series: TypeAlias = "list[TrialSummary]"


def is_offline(trial: TrialSummary) -> bool:
    """Whether the trial is one batch size of a series."""
    return trial.record.workload.scenario == "offline"


def has_batches(trials: Sequence[TrialSummary]) -> bool:
    """Whether the trials are of scenario offline, with more than one batch size."""
    return len({_batch_size(each) for each in trials if is_offline(each)}) > 1


def series(trials: Sequence[TrialSummary]) -> list[Series]:
    """The trials of each configuration by batch size, the fastest configuration first.

    Trials of other scenarios are left out.
    """
    found: dict[object, Series] = {}
    for trial in sorted(filter(is_offline, trials), key=lambda each: -each.speed):
        found.setdefault(trial.record.series, []).append(trial)
    return [sorted(each, key=_batch_size) for each in found.values()]


def tried(series: Series) -> Series:
    """The trials that have a row: without batch sizes that did not fit or were not tried."""
    return [each for each in series if each.values or each.status not in UNTRIED] or series[:1]


def knee(series: Series) -> TrialSummary | None:
    """The trial of the smallest batch size with at least KNEE_SHARE of the series' highest rate.

    None where none is proven and has a rate.
    """
    measured = [each for each in series if each.speed and each.parity.proven]
    highest = max((each.speed for each in measured), default=0.0)
    enough = (each for each in measured if each.speed >= KNEE_SHARE * highest)
    return min(enough, key=_batch_size, default=None)


def knees(trials: Sequence[TrialSummary]) -> set[str]:
    """The ids of the trials at the knee of each series."""
    return {found.record.trial_id for each in series(trials) if (found := knee(each))}


def _batch_size(trial: TrialSummary) -> int:
    return trial.record.workload.batch_size
