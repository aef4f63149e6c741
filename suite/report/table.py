"""How every table of the suite looks, in the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from rich import box
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

PIPED_WIDTH = 120
INTERVAL, ENERGY, MFU, SAME_WORK = "± 95 % CI", "J/sample (net)", "MFU", "same work"
TOKENS = "tokens/s"
JUSTIFY: dict[str, JustifyMethod] = {
    "framework": "left",
    "variant": "left",
    "track": "left",
    SAME_WORK: "center",
    "status": "left",
}


def console(*, stderr: bool = False) -> Console:
    """A console as wide as the terminal, or PIPED_WIDTH wide where there is none."""
    found = Console(stderr=stderr, highlight=False)
    if not found.is_terminal:
        return Console(stderr=stderr, highlight=False, width=PIPED_WIDTH)
    return found


def titled(title: str) -> Table:
    """An empty table in the style of all tables of the suite."""
    return Table(
        title=title,
        box=box.SIMPLE_HEAD,
        title_justify="left",
        title_style="bold",
        caption_justify="left",
        padding=(0, 1, 0, 0),
    )


def of_rows(title: str, rows: Sequence[Mapping[str, str]], *, left: Collection[str]) -> Table:
    """A table of rows with equal columns; those in `left` are aligned to the left.

    There must be at least one row.
    """
    table = titled(title)
    for name in rows[0]:
        table.add_column(name, justify="left" if name in left else "right", no_wrap=True)
    # One row with a line for each of them: Rich takes seconds for a thousand rows.
    table.add_row(*(Text("\n".join(row[name] for row in rows)) for name in rows[0]))
    return table


def lines_of(values: list[str], styles: list[str]) -> Text:
    """A line for each value, in its style."""
    styled = zip(values, styles, strict=True)
    return Text("\n").join(Text(value, style=style) for value, style in styled)


def markdown_of(rows: Sequence[Mapping[str, str]]) -> str:
    """Rows with equal columns as a table in Markdown. There must be at least one row."""
    names = [*rows[0]]
    lines = [names, ["---"] * len(names), *([*row.values()] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
