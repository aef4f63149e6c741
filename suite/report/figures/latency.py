"""Latency percentiles of the queries of inference, a curve for each trial."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Any

from suite.report.cells import unit_of
from suite.report.figures.colors import framework_color, framework_shape
from suite.report.figures.figure import (
    WIDTH,
    Figure,
    Spec,
    category,
    dashed,
    marked,
    name_of,
    quantity,
    spec,
    work_tags,
)
from suite.report.numbers import Unit, latency_of

if TYPE_CHECKING:
    from suite.report.run_data import RunData
    from suite.report.summary import TrialSummary

HEIGHT = 240
NAMED = ("50", "90", "95", "99", "99.9")  # percentiles whose names fit on the axis


def latency(run: RunData) -> Iterator[Figure]:
    """One figure for each workload whose queries have latencies."""
    for title, trials in run.by_workload.items():
        unit = unit_of(trials)
        rows = [row for trial in trials for row in _rows(run, trial, unit)]
        if rows:
            yield Figure(
                name=name_of("latency", title),
                caption="The latency that this share of the queries does not exceed: the median "
                "over runs. The axis is logarithmic in the share of slower queries. Dashed: other "
                "configurations of the framework.",
                description=f"latencies in {unit.symbol}: "
                + "; ".join(_sentence(run, trial, unit) for trial in trials if _has(trial)),
                spec=_spec(rows, unit),
                tags=work_tags(trials[0]),
                about=title,
            )


def _has(trial: TrialSummary) -> bool:
    return bool(trial.queries and trial.queries.percentiles_s)


def _rows(run: RunData, trial: TrialSummary, unit: Unit) -> Iterator[dict[str, Any]]:
    percentiles_s = trial.queries.percentiles_s if trial.queries else {}
    for name, latency_s in percentiles_s.items():
        yield {
            "label": run.label(trial),
            "framework": trial.record.framework,
            "percentile": name,
            "nines": _nines(name),
            "latency": latency_s * unit.per_s,
        }


def _nines(percentile: str) -> float:
    """The place on the axis: 1 for 90 %, 2 for 99 %, 3 for 99.9 %."""
    return -log10(1 - float(percentile) / 100)


def _sentence(run: RunData, trial: TrialSummary, unit: Unit) -> str:
    assert trial.queries
    texts = (
        f"p{name} {latency_of(value, unit)}" for name, value in trial.queries.percentiles_s.items()
    )
    return f"{run.label(trial)} {', '.join(texts)}"


def _ticks(values: Sequence[float]) -> list[float]:
    """1, 2 and 5 times powers of ten, from the last at most the smallest value to the largest."""
    low, high = min(values), max(values)
    steps = [
        round(step * 10.0**power, 12)
        for power in range(floor(log10(low)), ceil(log10(high)) + 1)
        for step in (1, 2, 5)
    ]
    first = max(step for step in steps if step <= low)
    last = min(step for step in steps if step >= high)
    return [step for step in steps if first <= step <= last]


def _spec(rows: Sequence[dict[str, Any]], unit: Unit) -> Spec:
    names = {row["percentile"]: row["nines"] for row in rows if row["percentile"] in NAMED}
    # An axis of numbers cannot have texts of its own but by an expression.
    labels = "".join(f"abs(datum.value - {at}) < 1e-6 ? '{name}' : " for name, at in names.items())
    axis = {"values": [*names.values()], "labelExpr": f"{labels}''", "labelOverlap": False}
    x = quantity("nines", "percentile of the queries (%)", axis=axis, scale={"zero": False})
    ticks = _ticks([row["latency"] for row in rows])
    scale = {"type": "log", "nice": False, "domain": [ticks[0], ticks[-1]]}
    ticked = {"values": ticks, "format": ",~r"}
    y = quantity("latency", f"latency ({unit.symbol})", scale=scale, axis=ticked)
    placed, dash = dashed(rows)
    frameworks = [row["framework"] for row in rows]
    color = framework_color(frameworks, legend=True)
    shared = {"x": x, "y": y, "color": color, "description": {"field": "mark"}}
    shape = framework_shape(frameworks, legend=True)
    point = {"type": "point", "filled": True, "size": 55, "opacity": 1, "aria": True}
    return spec(
        data={"values": placed},
        transform=[marked()],
        width=WIDTH,
        height=HEIGHT,
        layer=[
            {
                "mark": {"type": "line", "aria": True},
                "encoding": {**shared, "detail": category("label"), "strokeDash": dash},
            },
            {"mark": point, "encoding": {**shared, "shape": shape}},
        ],
    )
