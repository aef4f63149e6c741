"""Ratios to the fastest proven trial of a run, or to the same trials of another run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from suite.report.comparison import Comparison
from suite.report.figures.colors import framework_color, framework_shape
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

if TYPE_CHECKING:
    from suite.report.run_data import RunData

MOST = 40  # comparisons in a figure


def ratios(run: RunData) -> Iterator[Figure]:
    """One figure for each workload with several proven trials."""
    for title, pairs in run.ratios.items():
        base = f"the {pairs[0].a.metric.name} of {run.label(pairs[0].a)}"
        if figure := figure_of(run, pairs, title, base):
            yield figure


def figure_of(run: RunData, pairs: Sequence[Comparison], title: str, base: str) -> Figure | None:
    """The ratios of `pairs`, b of each being in `run`; None where no pair can be compared."""
    rows = [_row(run, pair) for pair in pairs if pair.difference][:MOST]
    if not rows:
        return None
    metrics = {pair.a.metric.plural for pair in pairs}
    latencies = any(pair.a.metric.lower_is_better for pair in pairs)
    return Figure(
        name=name_of("ratios", title),
        caption=f"The ratio to {base}, with its 95 % interval; at 1 there is no difference."
        + (" Of latencies, a ratio below 1 is faster." if latencies else ""),
        description="; ".join(row["text"] for row in rows),
        spec=_spec(rows, f"ratio of {metrics.pop()}" if len(metrics) == 1 else "ratio"),
        tags=work_tags(pairs[0].b),
        about=title,
    )


def _row(run: RunData, pair: Comparison) -> dict[str, Any]:
    difference = pair.difference
    assert difference
    low, high = difference.ci_low, difference.ci_high
    return {
        "label": run.label(pair.b),
        "framework": pair.b.record.framework,
        "ratio": difference.ratio,
        "low": difference.ratio if low is None else low,
        "high": difference.ratio if high is None else high,
        "text": f"{run.label(pair.b)}: {difference.ratio:.2f}, {difference.verdict}",
    }


def _spec(rows: list[dict[str, Any]], kind: str) -> Spec:
    frameworks = [row["framework"] for row in rows]
    color = framework_color(frameworks)
    y = rows_by("label", [row["label"] for row in rows])
    described = {"description": {"field": "mark"}}
    texts = row_texts("text")
    texts["encoding"]["y"] = y
    x = quantity("low", kind, scale={"zero": False})
    edges = [{"mark": {"type": "rule", "strokeDash": [4, 3]}, "encoding": {"x": {"datum": 1}}}]
    layer = [
        {
            "mark": {"type": "rule", "strokeWidth": 3, "aria": True},
            "encoding": {"x": x, "x2": {"field": "high"}, "y": y, "color": color, **described},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 90, "opacity": 1, "aria": True},
            "encoding": {
                "x": quantity("ratio", kind),
                "y": y,
                "color": color,
                "shape": framework_shape(frameworks),
                **described,
            },
        },
    ]
    size = {"width": WIDTH, "height": {"step": ROW}}
    return spec(data={"values": rows}, transform=[marked()], layer=[*edges, *layer, texts], **size)
