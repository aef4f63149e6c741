"""The rate over the batch size: of scenario offline, with each knee, and of training."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from suite.report import throughput as series_of
from suite.report.figures.colors import framework_color, framework_shape
from suite.report.figures.figure import (
    WIDTH,
    Figure,
    Spec,
    category,
    confidence_of,
    dashed,
    marked,
    name_of,
    quantity,
    spec,
    whole_numbers,
    work_tags,
)
from suite.report.numbers import rate_of
from suite.report.titles import name_of as configuration_of
from suite.report.titles import work_of_all_batches

if TYPE_CHECKING:
    from suite.report.run_data import RunData
    from suite.report.summary import TrialSummary

HEIGHT = 240


def throughput(run: RunData) -> Iterator[Figure]:
    """One figure for each workload of scenario offline with several batch sizes."""
    for title, trials in run.by_workload.items():
        measured = [trial for series in series_of.series(trials) for trial in series if trial.speed]
        if series_of.has_batches(measured):
            yield _figure("throughput", title, measured, knees=series_of.knees(trials))


def batch_sizes(run: RunData) -> Iterator[Figure]:
    """One figure for each workload of training that has several batch sizes."""
    groups: dict[str, list[TrialSummary]] = {}
    for trial in run.trials:
        if trial.record.workload.mode == "train" and trial.speed:
            groups.setdefault(work_of_all_batches(trial), []).append(trial)
    for title, trials in groups.items():
        if len({trial.record.workload.batch_size for trial in trials}) > 1:
            yield _figure("batch-sizes", title, trials, knees=())


def _figure(
    kind: str, title: str, trials: Sequence[TrialSummary], *, knees: Collection[str]
) -> Figure:
    rows = [_row(trial, knee=trial.record.trial_id in knees) for trial in trials]
    ring = (
        "A ring marks the knee, the smallest batch size with at least "
        f"{series_of.KNEE_SHARE:.0%} of the highest rate. "
    )
    return Figure(
        name=name_of(kind, title),
        caption="Samples per second over the batch size: the median over runs, and its interval"
        f"{confidence_of(trials)}. {ring if knees else ''}"
        "Dashed: other configurations of the framework.",
        description="; ".join(row["text"] for row in rows if row["knee"] or not knees),
        spec=_spec(rows),
        tags=work_tags(trials[0]),
        about=title,
    )


def _row(trial: TrialSummary, *, knee: bool) -> dict[str, Any]:
    rate, batch_size = trial.samples_per_s, trial.record.workload.batch_size
    label = configuration_of(trial)
    return {
        "label": label,
        "framework": trial.record.framework,
        "batch": batch_size,
        "median": rate.median,
        "low": rate.median if rate.ci_low is None else rate.ci_low,
        "high": rate.median if rate.ci_high is None else rate.ci_high,
        "knee": knee,
        "text": f"{label}: {'knee at ' * knee}batch {batch_size}, {rate_of(rate.median)} samples/s",
    }


def _spec(rows: Sequence[dict[str, Any]]) -> Spec:
    placed, dash = dashed(rows)
    frameworks = [row["framework"] for row in rows]
    color = framework_color(frameworks, legend=True)
    axis = {"values": whole_numbers(row["batch"] for row in rows), "format": "d"}
    x = quantity("batch", "batch size", axis=axis, scale={"type": "log", "base": 2, "nice": False})
    y = quantity("median", "samples per second", scale={"zero": True})
    shared = {"x": x, "y": y, "color": color, "description": {"field": "mark"}}
    ends = {"y": quantity("low", "samples per second"), "y2": {"field": "high"}}
    shape = framework_shape(frameworks, legend=True)
    point = {"type": "point", "filled": True, "size": 55, "opacity": 1, "aria": True}
    ring = {"type": "point", "size": 260, "strokeWidth": 2, "aria": True}
    return spec(
        data={"values": placed},
        transform=[marked()],
        width=WIDTH,
        height=HEIGHT,
        layer=[
            {
                "mark": {"type": "rule", "strokeWidth": 2, "aria": True},
                "encoding": {**shared, **ends},
            },
            {
                "mark": {"type": "line", "aria": True},
                "encoding": {**shared, "detail": category("label"), "strokeDash": dash},
            },
            {"mark": point, "encoding": {**shared, "shape": shape}},
            {"transform": [{"filter": "datum.knee"}], "mark": ring, "encoding": shared},
        ],
    )
