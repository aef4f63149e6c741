"""The best row of each framework, over variants, tracks, batch sizes and inputs of one model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from suite.report.summary import TrialSummary

Group = tuple[str, str, str, str]


def group_of(summary: TrialSummary) -> Group:
    """Rows of equal groups are alternatives. Other arithmetic is other work, so it has its own."""
    record = summary.record
    return record.workload.model, record.device, record.arithmetic, record.framework


def best(summaries: Sequence[TrialSummary]) -> list[TrialSummary]:
    """The fastest proven row of each framework, by model, device and arithmetic, fastest first."""
    found: dict[Group, TrialSummary] = {}
    for summary in summaries:
        if summary.status != "ok" or not summary.parity.proven or not _rate(summary):
            continue
        known = found.setdefault(group_of(summary), summary)
        if _rate(summary) > _rate(known):
            found[group_of(summary)] = summary
    return sorted(found.values(), key=lambda each: (*group_of(each)[:3], -_rate(each)))


def ids(summaries: Sequence[TrialSummary]) -> set[str]:
    """The trial ids of the best rows."""
    return {summary.record.trial_id for summary in best(summaries)}


def _rate(summary: TrialSummary) -> float:
    return summary.samples_per_s.median or 0.0
