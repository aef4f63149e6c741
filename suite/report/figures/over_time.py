"""The rates of a workload in all runs, in order of time."""

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
from suite.report.numbers import rate_of

if TYPE_CHECKING:
    from suite.report.history import Point, Series

HEIGHT = 220


def over_time(series: Sequence[Series], *, name: str, caption: str) -> Figure:
    """A line for each series, with the interval of each run and its change points.

    At least one series must have a rate.
    """
    points = [_point(each, point) for each in series for point in each.points if _has_rate(point)]
    return Figure(
        name=name_of("history", name),
        caption=caption,
        description="; ".join(_sentence(each) for each in series if each.rates),
        spec=_spec(points),
    )


def _has_rate(point: Point) -> bool:
    return bool(point.samples_per_s)


def _sentence(series: Series) -> str:
    changes = [point for point in series.points if point.change_point]
    text = f"{series.configuration}: {rate_of(series.rates[0])} to {rate_of(series.rates[-1])}"
    dates = ", ".join(f"{point.date:%Y-%m-%d}" for point in changes)
    return f"{text}, change points on {dates}" if changes else text


def _point(series: Series, point: Point) -> dict[str, Any]:
    rate = point.samples_per_s
    return {
        "date": point.date.isoformat(),
        "configuration": series.configuration,
        "framework": point.framework,
        "rate": rate,
        "low": rate if point.ci_low is None else point.ci_low,
        "high": rate if point.ci_high is None else point.ci_high,
        "changed": point.change_point is not None,
        "text": f"{series.configuration}, {point.run_id}: {rate_of(rate)} samples/s",
    }


def _spec(points: Sequence[dict[str, Any]]) -> Spec:
    frameworks = [each["framework"] for each in points]
    color = framework_color(frameworks, legend=True)
    axis = {"format": "%Y-%m-%d", "tickCount": 4, "labelOverlap": True}
    date: Spec = {"field": "date", "type": "temporal", "title": None, "axis": axis}
    rate = quantity("rate", "samples/s", scale={"zero": True})
    shared = {"x": date, "y": rate, "color": color, "description": {"field": "mark"}}
    interval = {**shared, "y": quantity("low", "samples/s"), "y2": {"field": "high"}}
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
