"""The ladder as a table for the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from suite.report import ladder
from suite.report.table import PIPED_WIDTH, of_rows
from suite.report.titles import name_of

TITLE = "the ladder: LeNet, one image at a time"


def render(rows: Sequence[ladder.Row], width: int = PIPED_WIDTH) -> Table:
    """A row for each framework, the lowest rung first; `lines` are those of its script."""
    unit = ladder.unit_of(rows)
    cells = [ladder.cells_of(row, name_of(row.trial), unit) for row in rows]
    title = f"{TITLE}, latencies in {unit.symbol}"
    return of_rows(title, cells, left=("framework",), width=width)
