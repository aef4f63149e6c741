"""The history of rows as tables, and rows of values as a table or JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic_core import to_json
from rich.console import Group, RenderableType
from rich.text import Text

from suite.report.history import Point, Series
from suite.report.numbers import UNKNOWN, number, value_of
from suite.report.table import INTERVAL, of_rows
from suite.results.changepoints import LEVEL, MIN_VALUES

LEFT = ("run", "version", "changed", "change point")
NOTE = (
    f"change point: Pettitt's test (1979) of the medians, p at most {LEVEL:g}; it needs "
    f"{MIN_VALUES} runs. The percentage is the median after it over that before it."
)


def render(series: Sequence[Series], last: int) -> RenderableType:
    """A table for each series with its `last` points, and notes below; 0: all points."""
    parts: list[RenderableType] = []
    for each in series:
        shown = each.points[-last:]
        parts.append(of_rows(_title(each), _filled([*map(cells, shown)]), left=LEFT))
        if len(shown) < len(each.points):
            parts.append(Text(f"{len(each.points) - len(shown)} older runs; --last 0 shows them"))
    return Group(*parts, *map(Text, _notes(series)))


def _title(series: Series) -> str:
    row = series.row
    return (
        f"{series.configuration}: {work_of(row)}, {row.device}, seed {row.seed}, {row.engine}, "
        f"{row.host}" + (f", {row.interleaved} interleaved" if row.interleaved > 1 else "")
    )


def work_of(row: Point) -> str:
    """The work of a row: model, dataset, mode, batch size, precision, and how it is done."""
    bound = f" within {1000 * row.latency_bound_s:g} ms" if row.latency_bound_s else ""
    way = f"{row.scenario}{bound}" if row.scenario else f"{row.optimizer}, input from {row.input}"
    return (
        f"{row.model} on {row.dataset}, {row.mode}, batch {row.batch_size}, {row.precision}, {way}"
    )


def _filled(rows: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """The rows without the columns that are empty in all of them."""
    names = [name for name in rows[0] if any(row[name] for row in rows)]
    return [{name: row[name] for name in names} for row in rows]


def cells(point: Point) -> dict[str, str]:
    """The texts of a point by their heading."""
    text = value_of(point.measured.median, point.metric)
    change = point.change_point
    failed = f" ({point.failed} failed)" if point.failed else ""
    return {
        "date": f"{point.date:%Y-%m-%d %H:%M}",
        "run": point.run_id,
        "version": point.framework_version or UNKNOWN,
        point.metric.heading: text + ("" if point.proven else " *"),
        INTERVAL: number(point.measured.spread, "±{:.1%}"),
        "runs": f"{point.runs}{failed}",
        "changed": ", ".join(point.changed),
        "change point": f"{change.ratio - 1:+.1%} (p {change.p_value:.2g})" if change else "",
    }


def _notes(series: Sequence[Series]) -> Iterator[str]:
    if any(not point.proven for each in series for point in each.points):
        yield "*: not proven to be the same work"
    tested = sum(len(each.medians) >= MIN_VALUES for each in series)
    if tested:
        yield NOTE
        yield f"of {tested} series without a change, {LEVEL * tested:.2g} would show one by chance"


def text_of(value: object) -> str:
    """A value in the cell of a table, on one line."""
    if value is None:
        return UNKNOWN
    return f"{value:,.6g}" if isinstance(value, float) else " ".join(str(value).split())


def json_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as a list of objects in JSON."""
    return to_json(list(rows), indent=1, fallback=str).decode()
