"""The rate or the latency of each trial of a workload with its interval, fastest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from suite.report.cells import unit_of
from suite.report.figures.colors import SURFACE, framework_color, framework_shape
from suite.report.figures.figure import (
    ROW,
    WIDTH,
    Figure,
    Spec,
    confidence_of,
    marked,
    name_of,
    quantity,
    row_texts,
    rows_by,
    spec,
    work_tags,
)
from suite.report.numbers import share_of_peak, value_of
from suite.report.throughput import has_batches
from suite.results.roofline import share

if TYPE_CHECKING:
    from suite.report.run_data import RunData
    from suite.report.summary import TrialSummary


def rates(run: RunData) -> Iterator[Figure]:
    """One figure for each workload that has a rate or a latency.

    Scenario offline with several batch sizes has one of its own, `throughput`.
    """
    for title, trials in run.by_workload.items():
        measured = [trial for trial in trials if trial.measured.median]
        if not measured or has_batches(measured):
            continue
        scale = _scale_of(measured)
        rows = [_row(trial, run, scale.per_unit) for trial in measured]
        yield Figure(
            name=name_of("rates", title),
            caption=f"{scale.title.capitalize()}: the median over runs, and its interval"
            f"{confidence_of(measured)}. {scale.better}Hollow: not proven to be the same work.",
            description=f"{scale.title}: " + "; ".join(row["text"] for row in rows),
            spec=_spec(rows, scale.title),
            tags=work_tags(trials[0]),
            about=title,
        )


@dataclass(frozen=True)
class _Scale:
    """The axis of a metric."""

    title: str
    per_unit: float  # how many units of the axis one unit of the metric is
    better: str  # a sentence of the caption


def _scale_of(trials: Sequence[TrialSummary]) -> _Scale:
    metric = trials[0].metric
    if metric.lower_is_better:
        unit = unit_of(trials)
        return _Scale(f"p50 latency in {unit.symbol}", unit.per_s, "Less is faster. ")
    return _Scale(metric.heading.replace("/s", " per second"), 1.0, "")


def _row(trial: TrialSummary, run: RunData, scale: float) -> dict[str, Any]:
    found, metric = trial.measured, trial.metric
    median = (found.median or 0.0) * scale
    shown = value_of(found.median, metric)
    trains = trial.record.workload.mode == "train"
    reached = share(trial.record, found.median, run.peak) if trains else None
    of_peak = f", MFU {share_of_peak(reached.compute)}" if reached else ""
    proof = "" if trial.parity.proven else ", not proven"
    return {
        "label": run.label(trial),
        "framework": trial.record.framework,
        "median": median,
        "low": found.ci_low * scale if found.ci_low is not None else median,
        "high": found.ci_high * scale if found.ci_high is not None else median,
        "proven": trial.parity.proven,
        "text": f"{run.label(trial)}: {shown}{of_peak}{proof}",
    }


def _spec(rows: list[dict[str, Any]], title: str) -> Spec:
    color = framework_color(row["framework"] for row in rows)
    shape = framework_shape(row["framework"] for row in rows)
    described = {"description": {"field": "mark"}}
    fill = {"condition": {**color, "test": "datum.proven"}, "value": SURFACE}
    interval = {
        "mark": {"type": "rule", "strokeWidth": 3, "aria": True},
        "encoding": {
            "x": quantity("low", title, scale={"zero": True}),
            "x2": {"field": "high"},
            "color": color,
            **described,
        },
    }
    median = {
        "mark": {"type": "point", "size": 90, "strokeWidth": 2, "opacity": 1, "aria": True},
        "encoding": {
            "x": quantity("median", title),
            "shape": shape,
            "fill": fill,
            "stroke": color,
            **described,
        },
    }
    return spec(
        data={"values": rows},
        transform=[marked()],
        width=WIDTH,
        height={"step": ROW},
        encoding={"y": rows_by("label", [row["label"] for row in rows])},
        layer=[interval, median, row_texts("text")],
    )
