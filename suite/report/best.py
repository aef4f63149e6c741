"""The best row of each framework, over variants, tracks, batch sizes and inputs of one model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, get_args

from suite.manifests.workloads import Scenario

if TYPE_CHECKING:
    from suite.report.summary import TrialSummary

Group = tuple[str, int, str, str, str, str]
WAYS = (None, *get_args(Scenario))  # training, and the scenarios of inference, in this order


def group_of(summary: TrialSummary) -> Group:
    """Rows of equal groups are alternatives: those that do the same work.

    The scenarios of inference have other figures, so they have groups of their own.
    """
    record = summary.record
    work = record.workload
    same = (work.dataset, work.optimizer, work.batch_norm, work.latency_bound_s)
    latency = summary.metric.lower_is_better  # of a query, which has as many samples as the batch
    return (
        work.model,
        WAYS.index(work.scenario),
        repr((*same, work.batch_size if latency else None)),
        record.device,
        record.arithmetic,
        record.framework,
    )


def best(summaries: Sequence[TrialSummary]) -> list[TrialSummary]:
    """The fastest proven row of each framework, by model, device and arithmetic, fastest first.

    In scenarios with a latency, it is the row with the lowest median.
    """
    found: dict[Group, TrialSummary] = {}
    for summary in summaries:
        if summary.status != "ok" or not summary.parity.proven or not summary.speed:
            continue
        known = found.setdefault(group_of(summary), summary)
        if summary.speed > known.speed:
            found[group_of(summary)] = summary
    return sorted(found.values(), key=lambda each: (*group_of(each)[:-1], -each.speed))


def ids(summaries: Sequence[TrialSummary]) -> set[str]:
    """The trial ids of the best rows."""
    return {summary.record.trial_id for summary in best(summaries)}
