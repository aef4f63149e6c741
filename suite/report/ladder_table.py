"""The ladder as a table for the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from suite.report import ladder
from suite.report.table import (
    INTERVAL,
    OFFLINE_RATE,
    PIPED_WIDTH,
    TRAINING_LINES,
    TRAINING_RATE,
    Fitted,
    markdown_of,
    of_rows,
)
from suite.report.titles import name_of

TITLE = "the ladder: LeNet, one image at a time"
# Columns that a narrow terminal leaves out, the least important first.
DISPENSABLE = (TRAINING_LINES, "overhead", OFFLINE_RATE, INTERVAL, TRAINING_RATE)


def render(rows: Sequence[ladder.Row], width: int = PIPED_WIDTH) -> Fitted:
    """A row for each framework, the lowest rung first; `lines` are those of its script."""
    title, cells = _cells(rows)
    return of_rows(title, cells, left=("framework",), width=width, dispensable=DISPENSABLE)


def markdown(rows: Sequence[ladder.Row]) -> str:
    """The table with all its columns. There must be at least one row."""
    title, cells = _cells(rows)
    return f"### {title}\n\n{markdown_of(cells)}"


def _cells(rows: Sequence[ladder.Row]) -> tuple[str, list[dict[str, str]]]:
    """The title, and the cells of each row."""
    unit = ladder.unit_of(rows)
    cells = [ladder.cells_of(row, name_of(row.trial), unit) for row in rows]
    return f"{TITLE}, latencies in {unit.symbol}", cells
