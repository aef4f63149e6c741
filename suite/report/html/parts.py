"""The parts of the page: tables and figures, tagged for its filter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from suite.report.figures import render
from suite.report.figures.figure import Figure, Spec, Tags


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of a table."""

    cells: Mapping[str, str]  # column -> text
    tags: Tags = field(default_factory=dict)
    address: str = ""  # of the page that the heading leads to


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table with equal columns in all rows; the first cell of a row is its heading."""

    caption: str
    rows: Sequence[Row]
    about: str = ""  # what the heading above it says: a part of its name for screen readers

    @property
    def name(self) -> str:
        """Its name for screen readers, unique on the page."""
        return f"{self.caption}: {self.about}" if self.about else self.caption

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [*self.rows[0].cells] if self.rows else []


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A figure in the page."""

    figure: Figure

    @cached_property
    def svg(self) -> str:
        """The figure as an element, drawn once."""
        return render.inline_svg(self.figure)

    @property
    def live_spec(self) -> Spec:
        """The specification in the colors of the page."""
        found: Spec = render.of_page(self.figure.spec)
        return found


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The first figures of a kind, by what they are about."""

    groups: Mapping[str, Sequence[Plot]]
    limited: bool  # there are more of them
    most: int

    @classmethod
    def of(cls, figures: Iterator[Figure], *, most: int) -> Figures:
        """The first `most` of the figures; the others are not made."""
        found = [*islice(figures, most + 1)]
        groups: dict[str, list[Plot]] = {}
        for figure in found[:most]:
            groups.setdefault(figure.about, []).append(Plot(figure=figure))
        return cls(groups=groups, limited=len(found) > most, most=most)


def facts(caption: str, values: Iterable[tuple[str, object]]) -> Table:
    """A table of names and values, without unknown ones."""
    rows = [
        Row(cells={"fact": name, "value": str(value)})
        for name, value in values
        if value not in (None, "", [])
    ]
    return Table(caption=caption, rows=rows)
