"""How every table of the suite looks, in the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.table import Table
from rich.text import Text

from suite.report.numbers import UNKNOWN
from suite.report.terminal import PIPED_WIDTH as PIPED_WIDTH
from suite.report.terminal import console as console
from suite.report.terminal import plain

PROSE_WIDTH = 20  # the least width of a column whose text is folded
INTERVAL, ENERGY, MFU, SAME_WORK = "± CI", "J/sample (net)", "MFU", "same work"
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


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """Rows with equal columns, as a table that loses nothing without a word.

    It is fitted to the width that it gets when it is shown: columns of `dispensable` are omitted,
    the first one first, and named below it; where the rest is still too wide, headings are folded;
    where that is not enough, each row is a block of lines, one for each column.
    """

    title: str
    rows: Sequence[Mapping[str, str]]
    left: Collection[str] = ()  # columns that are aligned to the left
    folded: Collection[str] = ()  # columns of prose, whose text may be folded
    width: int | None = None  # at most
    dispensable: Sequence[str] = ()
    styles: Sequence[str] = ()  # one for each row
    caption: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(options.max_width, self.width or options.max_width)
        columns = self._fitting(width)
        fold = not self._fits(columns, width)
        if fold and not self._fits(columns, width, fold=True):
            yield from self._blocks()
            return
        yield self._table(columns, fold=fold)
        if omitted := [name for name in self.rows[0] if name not in columns]:
            names = ", ".join(omitted)
            yield Text(f"no room in {width} columns: {names} (COLUMNS=200 dlsuite ... has it)")
        if self.caption:
            yield Text(self.caption)

    def _table(self, columns: Sequence[str], *, fold: bool) -> Table:
        table = titled(self.title)
        for name in columns:
            heading = fill(name, self._longest(name)) if fold else name
            justify = "left" if name in self.left else JUSTIFY.get(name, "right")
            prose = name in self.folded
            table.add_column(heading, justify=justify, no_wrap=not prose, overflow="fold")
        if self.folded:
            for row, style in zip(self.rows, self._styles, strict=True):
                table.add_row(*(Text(plain(row[name]), style=style) for name in columns))
        else:  # One row with a line for each of them: Rich takes seconds for a thousand rows.
            table.add_row(
                *(_lines_of([row[name] for row in self.rows], self._styles) for name in columns)
            )
        return table

    def _blocks(self) -> Iterator[Text]:
        """Each row as lines of a column and its value, with all columns."""
        if self.title:
            yield Text(self.title, style="bold")
        size = max(map(len, self.rows[0]))
        for row, style in zip(self.rows, self._styles, strict=True):
            lines = (f"{name:<{size}}  {plain(text)}".rstrip() for name, text in row.items())
            yield Text("\n".join(("", *lines)), style=style, overflow="fold")
        yield Text(f"\n{self.caption}" if self.caption else "")

    def _fitting(self, width: int) -> list[str]:
        """The columns without those that must be omitted so that the table is not too wide."""
        every = columns = [*self.rows[0]]
        removed = []
        for name in self.dispensable:
            if self._fits(columns, width):
                break
            if name in columns:
                columns = [each for each in columns if each != name]
                removed.append(name)
        for name in reversed(removed):  # a wide column that was removed later leaves room
            more = [each for each in every if each in (*columns, name)]
            if self._fits(more, width):
                columns = more
        return columns

    def _fits(self, columns: Sequence[str], width: int, *, fold: bool = False) -> bool:
        """Whether a table with these columns is at most `width` characters wide."""
        sizes = [max(self._longest(name), 0 if fold else cell_len(name)) for name in columns]
        return sum(sizes) + 2 * len(columns) + 1 <= width

    def _longest(self, name: str) -> int:
        """The least width of a column: of its longest cell, or of a word of its heading."""
        longest = max(cell_len(row[name]) for row in self.rows)
        if name in self.folded:
            longest = min(longest, PROSE_WIDTH)
        return max(longest, *map(cell_len, name.split() or [""]), 1)

    @property
    def _styles(self) -> Sequence[str]:
        return self.styles or [""] * len(self.rows)


def of_rows(
    title: str,
    rows: Sequence[Mapping[str, str]],
    *,
    left: Collection[str] = (),
    folded: Collection[str] = (),
    width: int | None = None,
    dispensable: Iterable[str] = (),
    styles: Sequence[str] = (),
    caption: str = "",
) -> Fitted:
    """A table of rows with equal columns, in the order of the first row's.

    There must be at least one row. The table is at most `width` characters wide, and at most as
    wide as the terminal: see Fitted.
    """
    return Fitted(
        title=title,
        rows=rows,
        left=left,
        folded=folded,
        width=width,
        dispensable=tuple(dispensable),
        styles=styles,
        caption=caption,
    )


def known_columns(
    rows: Sequence[Mapping[str, str]], optional: Collection[str] | None = None
) -> list[dict[str, str]]:
    """The rows without columns of `optional` in which no row has a value; None: any column."""
    names = (rows[0] if rows else ()) if optional is None else optional
    empty = {name for name in names if all(row.get(name) == UNKNOWN for row in rows)}
    return [{name: text for name, text in row.items() if name not in empty} for row in rows]


def _lines_of(values: list[str], styles: Sequence[str]) -> Text:
    """A line for each value, in its style."""
    styled = zip(values, styles, strict=True)
    return Text("\n").join(Text(plain(value), style=style) for value, style in styled)


def markdown_of(rows: Sequence[Mapping[str, str]]) -> str:
    """Rows with equal columns as a table in Markdown. There must be at least one row."""
    names = [*rows[0]]
    lines = [names, ["---"] * len(names), *([*row.values()] for row in rows)]
    escaped = ([text.replace("|", "\\|") for text in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in escaped)
