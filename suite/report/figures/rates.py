"""The rate of each trial of a workload with its interval, fastest first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from suite.report.figures.colors import SURFACE, framework_color, framework_shape
from suite.report.figures.figure import (
    ROW,
    WIDTH,
    Figure,
    Spec,
    marked,
    name_of,
    quantity,
    row_texts,
    rows_by,
    spec,
    work_tags,
)
from suite.report.numbers import rate_of
from suite.report.summary import TrialSummary
from suite.results.roofline import share

if TYPE_CHECKING:
    from suite.report.run_data import RunData


def rates(run: RunData) -> Iterator[Figure]:
    """One figure for each workload that has a rate."""
    for title, trials in run.by_workload.items():
        measured = [trial for trial in trials if trial.samples_per_s.median]
        if not measured:
            continue
        rows = [_row(trial, run) for trial in measured]
        yield Figure(
            name=name_of("rates", title),
            caption="Samples per second: the median over runs, and its 95 % interval. Hollow: not "
            "proven to be the same work.",
            description="samples per second: " + "; ".join(row["text"] for row in rows),
            spec=_spec(rows),
            tags=work_tags(trials[0]),
            about=title,
        )


def _row(trial: TrialSummary, run: RunData) -> dict[str, Any]:
    rate = trial.samples_per_s
    reached = share(trial.record, rate.median, run.peak)
    of_peak = f", MFU {reached.compute:.0%}" if reached else ""
    proof = "" if trial.parity.proven else ", not proven"
    return {
        "label": run.label(trial),
        "framework": trial.record.framework,
        "median": rate.median,
        "low": rate.ci_low if rate.ci_low is not None else rate.median,
        "high": rate.ci_high if rate.ci_high is not None else rate.median,
        "proven": trial.parity.proven,
        "text": f"{run.label(trial)}: {rate_of(rate.median)}{of_peak}{proof}",
    }


def _spec(rows: list[dict[str, Any]]) -> Spec:
    color = framework_color(row["framework"] for row in rows)
    shape = framework_shape(row["framework"] for row in rows)
    described = {"description": {"field": "mark"}}
    fill = {"condition": {**color, "test": "datum.proven"}, "value": SURFACE}
    interval = {
        "mark": {"type": "rule", "strokeWidth": 3, "aria": True},
        "encoding": {
            "x": quantity("low", "samples per second", scale={"zero": True}),
            "x2": {"field": "high"},
            "color": color,
            **described,
        },
    }
    median = {
        "mark": {"type": "point", "size": 90, "strokeWidth": 2, "opacity": 1, "aria": True},
        "encoding": {
            "x": quantity("median", "samples per second"),
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
