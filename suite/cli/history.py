"""The commands `history` and `query`, over all runs in the folder of results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from suite.cli.options import Models, Results, RowFormat, Scenarios
from suite.errors import Slower
from suite.report import history as histories
from suite.report import history_table, table
from suite.report.history import Filter, Series
from suite.report.rows import csv_of
from suite.results import index, queries
from suite.results.columns import TABLES

NARROWEST = (
    6  # characters of a column; a table with more columns than fit has a line for each value
)


def history(
    framework: Annotated[
        list[str] | None,
        typer.Option(
            "--framework",
            "-f",
            help="Only this framework, or FRAMEWORK:VARIANT/TRACK; repeatable.",
        ),
    ] = None,
    model: Models = None,
    variant: Annotated[
        list[str] | None, typer.Option("--variant", help="Only this variant; repeatable.")
    ] = None,
    device: Annotated[
        list[str] | None, typer.Option("--device", help="Only this device set; repeatable.")
    ] = None,
    scenario: Scenarios = None,
    host: Annotated[
        str | None, typer.Option("--host", help="Only machines whose description has this part.")
    ] = None,
    last: Annotated[
        int, typer.Option("--last", min=0, help="The newest runs of each row; 0: all.")
    ] = 10,
    fail_on_change: Annotated[
        bool,
        typer.Option(
            "--fail-on-change", help="Exit with 11 where one of the newest runs became slower."
        ),
    ] = False,
    format: Annotated[RowFormat, typer.Option(help="table, csv or json.")] = RowFormat.table,
    results: Results = Path("results"),
) -> None:
    """Show each row over time, with changes of versions, lock and image, and change points.

    Example: dlsuite history --model lenet --framework pytorch
    """
    chosen = Filter(
        frameworks=tuple(framework or ()),
        models=tuple(model or ()),
        variants=tuple(variant or ()),
        devices=tuple(device or ()),
        scenarios=tuple(scenario or ()),
        host=host,
    )
    with index.opened(results) as connection:
        _warn(index.problems(connection))
        found = histories.history(connection, chosen)
    if format is RowFormat.table:
        table.console().print(history_table.render(found, last))
    elif format is RowFormat.csv:
        values = histories.as_values(found)
        print(csv_of(values, [*values[0]]))
    else:
        print(history_table.json_of(histories.as_values(found)))
    if fail_on_change and (slower := [*_slower(found, last)]):
        raise Slower(f"slower than before: {'; '.join(slower)}", hint="dlsuite compare")


def _slower(found: Sequence[Series], last: int) -> Iterator[str]:
    """Each change to a lower speed in the `last` runs of a row; 0: in all."""
    for series in found:
        for point in series.points[-last:]:
            change, metric = point.change_point, point.metric
            if change and (change.ratio > 1) == metric.lower_is_better:
                row = f"{series.configuration}, {point.model}"
                yield f"{row}: {metric.name} {change.ratio:.3f} times, since {point.run_id}"


def query(
    sql: Annotated[
        str | None, typer.Argument(help="A SELECT; without it, the tables and columns are shown.")
    ] = None,
    format: Annotated[RowFormat, typer.Option(help="table, csv or json.")] = RowFormat.table,
    results: Results = Path("results"),
) -> None:
    """Answer a question about all records, in SQL (DuckDB), read-only.

    Example: dlsuite query "select framework, max(samples_per_s) from trials group by framework"
    """
    if sql is None:
        rows = [
            {"table": name, "column": each.name, "type": each.type, "meaning": each.meaning}
            for name, columns in TABLES.items()
            for each in columns
        ]
        _print("tables and columns", rows, [*rows[0]], format)
        return
    with index.opened(results) as connection:
        _warn(index.problems(connection))
        answer = queries.answer(connection, sql)
    _print("", answer.rows, answer.text_columns, format)


def _print(
    title: str, rows: Sequence[Mapping[str, object]], left: list[str], format: RowFormat
) -> None:
    if format is RowFormat.json:
        print(history_table.json_of(rows))
    elif not rows:
        table.console(stderr=True).print("no row")
    elif format is RowFormat.csv:
        print(csv_of(rows, [*rows[0]]))
    else:
        texts = [
            {name: history_table.text_of(value) for name, value in row.items()} for row in rows
        ]
        console = table.console()
        if len(texts[0]) * NARROWEST > console.width:
            texts = [
                {"row": str(number), "column": name, "value": value}
                for number, row in enumerate(texts, start=1)
                for name, value in row.items()
            ]
            left = ["column", "value"]
        console.print(table.of_rows(title, texts, left=left, folded=("value",)))


def _warn(problems: list[str]) -> None:
    """Name the runs that are not in the index."""
    for problem in problems:
        console = table.console(stderr=True)
        console.print(f"left out: {problem}", soft_wrap=True)
