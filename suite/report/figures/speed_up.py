"""The speed-up of several devices over one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from suite.report import scaling
from suite.report.figures.colors import framework_color, framework_shape
from suite.report.figures.figure import MARKED, Figure, Spec, category, name_of, quantity, spec
from suite.report.run_data import RunData

WIDTH, HEIGHT = 260, 220  # of each kind of scaling
IDEAL = "ideal"


def speed_up(run: RunData) -> Iterator[Figure]:
    """One figure for each model that trained on several devices."""
    rows = scaling.rows(run.trials) if scaling.has_several(run.trials) else []
    for model, group in groupby(rows, key=lambda row: row.trial.record.workload.model):
        points = [_point(row) for row in group if row.speed_up]
        if points:
            yield Figure(
                name=name_of("scaling", model),
                caption=f"Speed-up of {model} over one device of the same size. "
                "Dashed: as many times as devices.",
                description="; ".join(
                    f"{each['configuration']}, {each['kind']}, {each['devices']} devices: "
                    f"{each['speed_up']:.2f}"
                    for each in points
                ),
                spec=_spec(points),
            )


def _point(row: scaling.Row) -> dict[str, Any]:
    record, found = row.trial.record, row.speed_up
    assert found
    return {
        "configuration": record.configuration,
        "framework": record.framework,
        "kind": row.kind,
        "batch": record.workload.batch_size,
        "devices": record.devices.ranks,
        "speed_up": found.ratio,
        "low": found.ratio if found.ci_low is None else found.ci_low,
        "high": found.ratio if found.ci_high is None else found.ci_high,
    }


def _spec(points: Sequence[dict[str, Any]]) -> Spec:
    most = max(each["devices"] for each in points)
    kinds = dict.fromkeys(each["kind"] for each in points)
    ends = [{"devices": n, "speed_up": n} for n in (1, most)]
    ideal = [{"kind": kind, "configuration": IDEAL, **end} for kind in kinds for end in ends]
    frameworks = [each["framework"] for each in points]
    color = framework_color(frameworks)
    known = {"filter": f"datum.configuration != '{IDEAL}'"}
    marked = {"description": {"field": "mark"}}
    devices = quantity("devices", "devices", axis={"tickMinStep": 1, "format": "d"})
    y = quantity("speed_up", "speed-up", scale={"zero": True})
    layer = [
        {
            "transform": [{"filter": f"datum.configuration == '{IDEAL}'"}],
            "mark": {"type": "line", "strokeDash": [4, 3], "color": "#7A7A7A"},
            "encoding": {"x": devices, "y": y},
        },
        {
            "transform": [known],
            "mark": {"type": "rule", "strokeWidth": 2, "aria": True},
            "encoding": {"x": devices, "y": quantity("low", "speed-up"), "y2": {"field": "high"}}
            | {"color": color, **marked},
        },
        {
            "transform": [known],
            "mark": {"type": "line", "aria": True, "point": False},
            "encoding": {"x": devices, "y": y, "color": color, **marked}
            | {"detail": [category("configuration"), category("batch")]},
        },
        {
            "transform": [known],
            "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1, "aria": True},
            "encoding": {"x": devices, "y": y, "color": color, **marked}
            | {"shape": framework_shape(frameworks)},
        },
    ]
    marks = {"calculate": f"'{MARKED}' + datum.framework", "as": "mark"}
    return spec(
        data={"values": [*points, *ideal]},
        transform=[marks],
        facet={"column": category("kind", header={"title": None})},
        spec={"width": WIDTH, "height": HEIGHT, "layer": layer},
    )
