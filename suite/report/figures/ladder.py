"""The ladder as bars: the latency of one image in each framework, beside its lines of code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from suite.report import ladder as ladders
from suite.report.figures.colors import OTHER, framework_color
from suite.report.figures.figure import (
    ROW,
    Figure,
    Spec,
    marked,
    name_of,
    quantity,
    row_texts,
    rows_by,
    spec,
)
from suite.report.numbers import Unit, latency_of, rate_of

if TYPE_CHECKING:
    from suite.report.run_data import RunData

LATENCY_WIDTH, LINES_WIDTH = 215, 110


def ladder(run: RunData) -> Iterator[Figure]:
    """One figure, where the run is of the ladder."""
    found = ladders.rows(run.trials, ladders.read(run.folder))
    if not found:
        return
    unit = ladders.unit_of(found)
    rows = [_row(run, each, unit) for each in found]
    workload = found[0].trial.record.workload
    yield Figure(
        name=name_of("ladder", workload.model),
        caption=f"The median latency of one image of {workload.model} at each rung, the lowest "
        "rung first, with the overhead over the lowest rung. Gray: the lines of code of its "
        "hand-written script, with the samples per second of its training.",
        description="; ".join(f"{row['text']}, {row['beside']}" for row in rows),
        spec=_spec(rows, unit),
        tags={"model": workload.model},
        about=f"The ladder of {workload.model}",
    )


def _row(run: RunData, row: ladders.Row, unit: Unit) -> dict[str, Any]:
    overhead = f" ({row.over_lowest:+.0%})" if row.over_lowest else ""
    rate = row.training_samples_per_s
    trains = f", {rate_of(rate)}/s" if rate else ""
    label = run.label(row.trial)
    latency = f"{latency_of(row.latency_s, unit)} {unit.symbol}"
    return {
        "label": label,
        "framework": row.trial.record.framework,
        "rung": row.rung,
        "latency": row.latency_s * unit.per_s,
        "lines": row.lines,
        "text": f"{label}: {latency}{overhead}",
        "beside": f"{row.lines} lines{trains}",
    }


def _spec(rows: Sequence[dict[str, Any]], unit: Unit) -> Spec:
    order = [row["label"] for row in rows]
    color = framework_color(row["framework"] for row in rows)
    bar = {"type": "bar", "height": 9, "aria": True}
    latency = {
        "mark": bar,
        "encoding": {
            "x": quantity("latency", f"p50 latency ({unit.symbol})", axis={"tickCount": 4}),
            "color": color,
            "description": {"field": "mark"},
        },
    }
    lines = {
        "mark": {**bar, "color": OTHER},
        "encoding": {
            "x": quantity("lines", "lines of code", axis={"tickCount": 3}),
            "description": {"field": "mark"},
        },
    }
    plots = [
        {
            "width": width,
            "height": {"step": ROW},
            "encoding": {"y": rows_by("label", order)},
            "layer": layer,
        }
        for width, layer in (
            (LATENCY_WIDTH, [latency, row_texts("text")]),
            (LINES_WIDTH, [lines, row_texts("beside")]),
        )
    ]
    return spec(data={"values": list(rows)}, transform=[marked()], hconcat=plots, spacing=14)
