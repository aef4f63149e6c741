"""How every table of the suite looks, in the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from textwrap import fill

from rich import box
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from suite.report.numbers import UNKNOWN

PIPED_WIDTH = 120
INTERVAL, ENERGY, MFU, SAME_WORK = "± 95 % CI", "J/sample (net)", "MFU", "same work"
TOKENS, J_INFERENCE = "tokens/s", "J/inference (net)"
P90_ESTIMATE, P99_ESTIMATE = "p90 estimate", "p99 estimate"
BUILD, FIRST_INFERENCE = "build", "first inference"
OVER_LOWEST, OFFLINE_RATE, TRAINING_RATE = (
    "over lowest rung",
    "offline samples/s",
    "training samples/s",
)
LINES, TRAINING_LINES = "lines", "training lines"
JUSTIFY: dict[str, JustifyMethod] = {
    "framework": "left",
    "variant": "left",
    "track": "left",
    SAME_WORK: "center",
    "status": "left",
}


def console(*, stderr: bool = False) -> Console:
    """A console as wide as the terminal, or PIPED_WIDTH wide where there is none.

    It takes no markup: messages of workers and libraries have brackets of their own.
    """
    found = Console(stderr=stderr, highlight=False, markup=False)
    if not found.is_terminal:
        found.width = PIPED_WIDTH
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


def of_rows(
    title: str,
    rows: Sequence[Mapping[str, str]],
    *,
    left: Collection[str] = (),
    width: int | None = None,
    dispensable: Iterable[str] = (),
    styles: Sequence[str] = (),
) -> Table:
    """A table of rows with equal columns; those in `left` are aligned to the left.

    There must be at least one row. Where it is wider than `width` characters, the columns of
    `dispensable` are omitted, the first one first; where the rest is still too wide, headings are
    folded. `styles` has one for each row.
    """
    columns = _fitting(rows, width, dispensable)
    fold = not _fits(columns, rows, width)
    table = titled(title)
    for name in columns:
        longest = max(len(text) for text in (*name.split(), *(row[name] for row in rows)))
        heading = fill(name, longest) if fold else name
        justify = "left" if name in left else JUSTIFY.get(name, "right")
        table.add_column(heading, justify=justify, no_wrap=True)
    # One row with a line for each of them: Rich takes seconds for a thousand rows.
    shown = styles or [""] * len(rows)
    table.add_row(*(_lines_of([row[name] for row in rows], shown) for name in columns))
    return table


def known_columns(
    rows: Sequence[Mapping[str, str]], optional: Collection[str] | None = None
) -> list[dict[str, str]]:
    """The rows without columns of `optional` in which no row has a value; None: any column."""
    names = (rows[0] if rows else ()) if optional is None else optional
    empty = {name for name in names if all(row.get(name) == UNKNOWN for row in rows)}
    return [{name: text for name, text in row.items() if name not in empty} for row in rows]


def _fitting(
    rows: Sequence[Mapping[str, str]], width: int | None, dispensable: Iterable[str]
) -> list[str]:
    """The columns without those that must be omitted so that the table is not too wide."""
    columns = [*rows[0]]
    for omitted in dispensable:
        if _fits(columns, rows, width):
            break
        if omitted in columns:
            columns.remove(omitted)
    return columns


def _fits(columns: list[str], rows: Sequence[Mapping[str, str]], width: int | None) -> bool:
    """Whether a table with these columns is at most `width` characters wide."""
    widths = [max(len(name), *(len(row[name]) for row in rows)) for name in columns]
    return width is None or sum(widths) + 2 * len(columns) + 1 <= width


def _lines_of(values: list[str], styles: Sequence[str]) -> Text:
    """A line for each value, in its style."""
    styled = zip(values, styles, strict=True)
    return Text("\n").join(Text(value, style=style) for value, style in styled)


def markdown_of(rows: Sequence[Mapping[str, str]]) -> str:
    """Rows with equal columns as a table in Markdown. There must be at least one row."""
    names = [*rows[0]]
    lines = [names, ["---"] * len(names), *([*row.values()] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
