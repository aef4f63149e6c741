"""All figures of one kind as one picture that can stand alone: in a document, in a message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from textwrap import wrap
from typing import TYPE_CHECKING

from suite.report.figures.colors import TEXT
from suite.report.figures.figure import Figure, Spec, spec
from suite.report.titles import framework_of, machine_of
from suite.results.index import started_at

if TYPE_CHECKING:
    from suite.report.run_data import RunData

LINE = 64  # characters of a text above a figure of WIDTH
LINE_OF_TITLE = 44
# A scale that is shared by all parts has a legend of its own, beside those of the parts.
INDEPENDENT = {"color": "independent", "shape": "independent", "strokeDash": "independent"}
SIZE, SMALL = 15, 11  # of the title and of the texts below it


def picture(run: RunData, figures: Sequence[Figure]) -> Figure:
    """The figures below each other, with what a reader must know: the suite's title, the workload
    of each, the date, the machine, the versions, and the captions.
    """
    about = [
        f"{started_at(run.folder):%Y-%m-%d}, {machine_of(run.records[0])}",
        ", ".join(versions(run)),
        *dict.fromkeys(each.caption for each in figures),
    ]
    title = {
        "text": wrap(run.title, LINE_OF_TITLE),
        "subtitle": [line for text in about for line in wrap(text, LINE)],
        "anchor": "start",
        "fontSize": SIZE,
        "subtitleFontSize": SMALL,
        "subtitleColor": TEXT,
        "subtitlePadding": 6,
        "offset": 14,
    }
    parts = [_titled(each) for each in figures]
    drawn = spec(title=title, vconcat=parts, spacing=26, resolve={"scale": INDEPENDENT})
    return replace(figures[0], name=run.folder.name, spec=drawn)


def versions(run: RunData) -> list[str]:
    """The frameworks of the run with their versions, and dlsuite."""
    found = {
        f"{framework_of(record)} {record.framework_version}"
        for record in run.records
        if record.framework_version
    }
    return [*sorted(found), f"dlsuite {run.records[0].environment.get('dlsuite', '')}"]


def _titled(figure: Figure) -> Spec:
    """The specification as a part of another one, with what it is about as its title."""
    part = {name: value for name, value in figure.spec.items() if name != "$schema"}
    title = {"text": wrap(figure.about, LINE), "anchor": "start", "fontSize": 12}
    return {**part, "title": title}
