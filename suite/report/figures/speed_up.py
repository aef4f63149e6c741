"""The speed-up of several devices over one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from suite.report import scaling
from suite.report.figures.colors import OTHER, framework_color, framework_shape
from suite.report.figures.figure import (
    Figure,
    Spec,
    category,
    marked,
    name_of,
    quantity,
    spec,
    whole_numbers,
)

if TYPE_CHECKING:
    from suite.report.run_data import RunData

WIDTH, HEIGHT = 165, 180  # of each kind of scaling
IDEAL = "ideal"


def speed_up(run: RunData) -> Iterator[Figure]:
    """One figure for each model that trained on several devices."""
    rows = scaling.rows(run.trials) if scaling.has_several(run.trials) else []
    for model, group in groupby(rows, key=lambda row: row.trial.record.workload.model):
        points = [point for row in group if row.speed_up for point in _points(row)]
        if points:
            yield Figure(
                name=name_of("scaling", model),
                caption=f"Speed-up of {model} over one device of the same size. "
                "Dashed: as many times as devices.",
                description="; ".join(
                    f"{each['configuration']}, {each['kind']}, {each['devices']} devices: "
                    f"{each['speed_up']:.2f}"
                    for each in points
                    if each["devices"] > 1
                ),
                spec=_spec(points),
                tags={"model": model},
                about=model,
            )


def _points(row: scaling.Row) -> list[dict[str, Any]]:
    """The speed-up, and the one device to which it is relative."""
    record, found = row.trial.record, row.speed_up
    assert found
    shared = {
        "configuration": row.name,
        "framework": record.framework,
        "kind": row.kind,
    }
    base = {"devices": 1, "speed_up": 1.0, "low": 1.0, "high": 1.0}
    several = {
        "devices": record.devices.ranks,
        "speed_up": found.ratio,
        "low": found.ratio if found.ci_low is None else found.ci_low,
        "high": found.ratio if found.ci_high is None else found.ci_high,
    }
    return [{**shared, **base}, {**shared, **several}]


def _spec(points: Sequence[dict[str, Any]]) -> Spec:
    most = max(each["devices"] for each in points)
    kinds = dict.fromkeys(each["kind"] for each in points)
    ends = [{"devices": n, "speed_up": n} for n in (1, most)]
    ideal = [{"kind": kind, "configuration": IDEAL, **end} for kind in kinds for end in ends]
    ticks = whole_numbers(each["devices"] for each in points)
    x = quantity("devices", "devices", axis={"values": ticks, "format": "d"})
    y = quantity("speed_up", "speed-up", scale={"zero": True})
    line = {"type": "line", "strokeDash": [4, 3], "color": OTHER}
    is_ideal = f"datum.configuration == '{IDEAL}'"
    layer = [
        {"transform": [{"filter": is_ideal}], "mark": line, "encoding": {"x": x, "y": y}},
        *({"transform": [{"filter": f"!({is_ideal})"}], **each} for each in _marks(points, x, y)),
    ]
    return spec(
        data={"values": [*points, *ideal]},
        transform=[marked()],
        facet={"column": category("kind", header={"title": None})},
        spec={"width": WIDTH, "height": HEIGHT, "layer": layer},
    )


def _marks(points: Sequence[dict[str, Any]], x: Spec, y: Spec) -> list[Spec]:
    """The layers of measured values: intervals, a line for each configuration, and points."""
    frameworks = [each["framework"] for each in points]
    color = framework_color(frameworks, legend=True)
    shared = {"x": x, "y": y, "color": color, "description": {"field": "mark"}}
    ends = {"y": quantity("low", "speed-up"), "y2": {"field": "high"}}
    shape = {"shape": framework_shape(frameworks, legend=True)}
    return [
        {
            "mark": {"type": "rule", "strokeWidth": 2, "aria": True},
            "encoding": {**shared, **ends},
        },
        {
            "mark": {"type": "line", "aria": True},
            "encoding": {**shared, "detail": category("configuration")},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1, "aria": True},
            "encoding": {**shared, **shape},
        },
    ]
