"""The rates or latencies of a workload in all runs, in order of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from suite.report.figures.colors import framework_color, framework_shape
from suite.report.figures.figure import (
    WIDTH,
    Figure,
    Spec,
    category,
    marked,
    name_of,
    quantity,
    spec,
)
from suite.report.numbers import with_unit
from suite.results.metric import Metric

if TYPE_CHECKING:
    from suite.report.history import Point, Series

HEIGHT = 220


def over_time(series: Sequence[Series], *, name: str, caption: str) -> Figure:
    """A line for each series, with the interval of each run and its change points.

    At least one series must have a median, and all have the same metric.
    """
    labels = _labels(series)
    points = [
        _point(label, point)
        for label, each in zip(labels, series, strict=True)
        for point in each.points
        if point.measured.median
    ]
    return Figure(
        name=name_of("history", name),
        caption=caption,
        description="; ".join(
            _sentence(label, each)
            for label, each in zip(labels, series, strict=True)
            if each.medians
        ),
        spec=_spec(points, _axis(series[0].row.metric)),
    )


def _labels(series: Sequence[Series]) -> list[str]:
    """The configuration of each series, with what several of them differ in."""
    texts = {"cores": "{} cores", "interleaved": "{} interleaved", "seed": "seed {}"}
    differing = [name for name in texts if len({each.row.values[name] for each in series}) > 1]
    labels = [
        ", ".join(
            (each.configuration, *(texts[name].format(each.row.values[name]) for name in differing))
        )
        for each in series
    ]
    return [
        label if labels.count(label) == 1 else f"{label}, {each.row.trial_id}"
        for label, each in zip(labels, series, strict=True)
    ]


def _sentence(label: str, series: Series) -> str:
    changes = [point for point in series.points if point.change_point]
    first, last = (with_unit(series.medians[end], series.row.metric) for end in (0, -1))
    text = f"{label}: {first} to {last}"
    dates = ", ".join(f"{point.date:%Y-%m-%d}" for point in changes)
    return f"{text}, change points on {dates}" if changes else text


def _point(label: str, point: Point) -> dict[str, Any]:
    found, scale = point.measured, _scale(point.metric)
    median = (found.median or 0.0) * scale
    shown = with_unit(found.median, point.metric)
    return {
        "date": point.date.isoformat(),
        "configuration": label,
        "framework": point.framework,
        "median": median,
        "low": median if found.ci_low is None else found.ci_low * scale,
        "high": median if found.ci_high is None else found.ci_high * scale,
        "changed": point.change_point is not None,
        "text": f"{label}, {point.run_id}: {shown}",
    }


def _scale(metric: Metric) -> float:
    """How many units of the axis one unit of the metric is."""
    return 1000.0 if metric.lower_is_better else 1.0


def _axis(metric: Metric) -> str:
    return f"{metric.name} (ms)" if metric.lower_is_better else metric.heading


def _spec(points: Sequence[dict[str, Any]], title: str) -> Spec:
    frameworks = [each["framework"] for each in points]
    color = framework_color(frameworks, legend=True)
    axis = {"format": "%Y-%m-%d", "tickCount": 4, "labelOverlap": True}
    date: Spec = {"field": "date", "type": "temporal", "title": None, "axis": axis}
    median = quantity("median", title, scale={"zero": True})
    shared = {"x": date, "y": median, "color": color, "description": {"field": "mark"}}
    interval = {**shared, "y": quantity("low", title), "y2": {"field": "high"}}
    shape = {"shape": framework_shape(frameworks, legend=True), "tooltip": {"field": "text"}}
    ring = {"type": "point", "size": 260, "strokeWidth": 2, "aria": True}
    return spec(
        width=WIDTH,
        height=HEIGHT,
        data={"values": list(points)},
        transform=[marked()],
        layer=[
            {"mark": {"type": "rule", "strokeWidth": 2, "aria": True}, "encoding": interval},
            {
                "mark": {"type": "line", "aria": True},
                "encoding": {**shared, "detail": category("configuration")},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1, "aria": True},
                "encoding": {**shared, **shape},
            },
            {"transform": [{"filter": "datum.changed"}], "mark": ring, "encoding": shared},
        ],
    )
