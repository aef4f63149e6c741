"""The queries of a trial of inference, over its runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from suite.results.record import Record


@dataclass(frozen=True, kw_only=True)
class Queries:
    """Medians over the runs that are ok; percentiles and rates that no run has are absent."""

    mean_s: float | None  # latency; None in scenario offline
    percentiles_s: dict[str, float]  # latencies by percentile: 50, 90, 95, 97, 99, 99.9
    early_stopping_s: dict[str, float]  # LoadGen's upper estimates of percentiles 90 and 99
    queries: int  # of the run with the fewest
    samples: int  # of the run with the fewest
    overhead_share: float | None  # of a null model in the median latency or call
    answers: int | None  # that closing proofs compared with the reference


def of_runs(runs: Sequence[Record]) -> Queries | None:
    """The queries of these runs; None in training, or where no run is ok."""
    found = [run.inference for run in runs if run.status == "ok" and run.inference]
    if not found:
        return None
    shares = [each.overhead_share for each in found if each.overhead_share is not None]
    closings = [run.parity.closing for run in runs if run.parity.closing]
    means = [each.mean_s for each in found if each.mean_s is not None]
    return Queries(
        mean_s=median(means) if means else None,
        percentiles_s=_medians(each.percentiles_s for each in found),
        early_stopping_s=_medians(each.early_stopping_s for each in found),
        queries=min(each.queries for each in found),
        samples=min(each.samples for each in found),
        overhead_share=median(shares) if shares else None,
        answers=sum(each.answers or 0 for each in closings) or None,
    )


def _medians(runs: Iterable[dict[str, float]]) -> dict[str, float]:
    """The median of each percentile over the runs that have it."""
    values: dict[str, list[float]] = {}
    for run in runs:
        for name, value in run.items():
            values.setdefault(name, []).append(value)
    return {name: median(each) for name, each in values.items()}
