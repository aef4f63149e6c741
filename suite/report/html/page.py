"""Fills the templates with a run, and writes the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suite.paths import write_atomically
from suite.report import (
    check_table,
    comparison_table,
    convergence,
    convergence_table,
    scaling,
    scaling_table,
    titles,
)
from suite.report import ladder as ladders
from suite.report.comparison import Comparison, Comparisons, compare
from suite.report.figures import render
from suite.report.figures.curves import curves
from suite.report.figures.figure import Figure, tags_of
from suite.report.figures.ladder import ladder
from suite.report.figures.latency import latency
from suite.report.figures.ratios import figure_of, ratios
from suite.report.figures.speed_up import speed_up
from suite.report.figures.throughput import batch_sizes
from suite.report.html import answer, details, frame, machine, proofs
from suite.report.html.parts import Figures, Plot, Row, Table
from suite.results.index import started_at
from suite.runner import series

if TYPE_CHECKING:
    from suite.report.run_data import RunData

NAME = "report.html"  # in a run's folder
MOST_PLOTS = 8  # of each kind
SECTIONS = {
    "checks": "Checks",
    "answer": "Answer",
    "inference": "Inference",
    "training": "Training",
    "runs": "Runs",
    "comparison": "Comparison",
    "scaling": "Scaling",
    "parity": "Same work",
    "machine": "Machine",
    "failures": "Failures",
}


def write(
    path: Path, run: RunData, against: RunData | None = None, *, interactive: bool = False
) -> None:
    """Write the page of a run to `path`; raise OSError where that fails.

    `against` is a second run with which its trials are compared. Marks of an interactive page show
    their values; it holds the runtime of Vega, about a megabyte.
    """
    write_atomically(path, html(run, against, interactive=interactive))


def html(
    run: RunData,
    against: RunData | None = None,
    *,
    interactive: bool = False,
    up: str | None = None,
) -> str:
    """The page; `up` is the address of the list of all runs, where there is one."""
    config = render.of_page({**render.CONFIG, "mark": {"tooltip": {"content": "data"}}})
    live = _live() if interactive else ""
    return frame.render("page.html.j2", live=live, config=config, up=up, **_values(run, against))


def _values(run: RunData, against: RunData | None) -> dict[str, Any]:
    """What the templates show."""
    values = {
        "run": run,
        "record": run.records[0],
        "started": f"{started_at(run.folder):%Y-%m-%d %H:%M}",
        "place": titles.machine_of(run.records[0]),
        "version": run.records[0].environment.get("dlsuite", ""),
        "several": len(run.by_workload) > 1,  # workloads: then headings name them
        "choices": _choices(run),
        "checks": _checks(run),
        "answers": answer.answers(run),
        "latencies": _figures(latency, run),
        "ladder": _ladder(run),
        "curves": _figures(curves, run),
        "batch_sizes": _figures(batch_sizes, run),
        "details": details.details(run),
        "ratios": _figures(ratios, run),
        "against": _against(run, against) if against else None,
        "scaling": _scaling(run),
        "speed_ups": _figures(speed_up, run),
        "accuracies": _accuracies(run),
        "proofs": proofs.proofs(run),
        "proven": bool(run.certificates),
        "machine": machine.machine(run),
        "versions": machine.versions(run),
        "failures": list(machine.failures(run)),
        "failed": len(series.failures(run.records)),
        "drawn": {"workloads": answer.MOST_PLOTS, "trials": details.MOST_DRAWN}
        | {"tables": details.MOST_TABLES},
    }
    return {**values, "sections": _sections(values)}


def _sections(values: dict[str, Any]) -> dict[str, str]:
    """The sections with content: the name of their template, and their title."""
    empty = {
        "checks": not values["checks"],
        "answer": values["checks"],  # rates of single short runs: no framework is fastest
        "inference": not (values["latencies"].groups or values["ladder"]),
        "training": not (
            values["curves"].groups or values["accuracies"] or values["batch_sizes"].groups
        ),
        "comparison": not (values["ratios"].groups or values["against"]),
        "scaling": not values["scaling"],
        "failures": not values["failures"],
    }
    return {name: title for name, title in SECTIONS.items() if not empty.get(name)}


def _figures(make: Callable[[RunData], Iterator[Figure]], run: RunData) -> Figures:
    """The first figures of one kind."""
    return Figures.of(make(run), most=MOST_PLOTS)


def _checks(run: RunData) -> dict[str, Any] | None:
    """The checks of `dlsuite check-gpu`, and the reasons of those that did not succeed."""
    if run.records[0].suite != check_table.SUITE:
        return None
    rows = [Row(cells=each) for each in check_table.rows_of(run.records, run.peak)]
    table = Table(caption=check_table.NOTE, rows=rows)
    return {"table": table, "problems": [*check_table.problems(run.records)]}


def _choices(run: RunData) -> dict[str, list[str]]:
    """What the filter offers: the values of each tag in this run."""
    tags = [tags_of(trial) for trial in run.trials]
    return {
        name: sorted({each[name] for each in tags}) for name in ("framework", "model", "device")
    }


def _against(run: RunData, other: RunData) -> dict[str, Any]:
    """The comparison of the run's trials with the same ones of another run."""
    found: Comparisons = compare(other.trials, run.trials)
    name = other.records[0].run_id
    pairs = sorted(found.pairs, key=_title_of)
    groups = [(title, list(group)) for title, group in groupby(pairs, key=_title_of)]
    return {
        "name": name,
        "groups": [
            _compared(run, name, title, group, drawn=number < MOST_PLOTS)
            for number, (title, group) in enumerate(groups)
        ],
        "notes": list(comparison_table.notes_of(found)),
    }


def _title_of(pair: Comparison) -> str:
    return titles.title_of(pair.a)


def _compared(
    run: RunData, name: str, title: str, pairs: Sequence[Comparison], *, drawn: bool
) -> dict[str, Any]:
    """The figure, if it is drawn, and the table of one workload."""
    base = f"the same trial of {name}"
    figure = figure_of(run, pairs, f"{name} {title}", base) if drawn else None
    rows = [
        Row(
            cells={"trial": run.label(pair.b), **comparison_table.cells_of(pair)},
            tags=tags_of(pair.b),
        )
        for pair in pairs
    ]
    return {
        "plot": Plot(figure=figure) if figure else None,
        "table": Table(caption=f"{title}; a: {name}, b: this run", rows=rows),
    }


def _ladder(run: RunData) -> dict[str, Any] | None:
    """The figure and the table of the ladder; None for other runs."""
    figure = next(ladder(run), None)
    if figure is None:
        return None
    found = ladders.rows(run.trials, ladders.read(run.folder))
    unit = ladders.unit_of(found)
    rows = [
        Row(cells=ladders.cells_of(row, run.label(row.trial), unit), tags=tags_of(row.trial))
        for row in found
    ]
    caption = f"The ladder: latencies of one image in {unit.symbol}, and lines of code"
    return {"plot": Plot(figure=figure), "table": Table(caption=caption, rows=rows)}


def _scaling(run: RunData) -> Table | None:
    if not scaling.has_several(run.trials):
        return None
    rows = scaling.rows(run.trials)
    cells = zip(scaling_table.cells_of(rows), rows, strict=True)
    tagged = [Row(cells=each, tags=tags_of(row.trial)) for each, row in cells]
    return Table(caption="Scaling: several devices compared with one", rows=tagged)


def _accuracies(run: RunData) -> Table | None:
    """The accuracies of a run with several seeds; None for others."""
    if not convergence.several_seeds(run.records):
        return None
    rows = [
        Row(cells={"model": row.record.workload.model, **convergence_table.cells_of(row)})
        for row in convergence.rows(run.records)
    ]
    return Table(caption=convergence_table.NOTE, rows=rows)


def _live() -> str:
    """The script that draws the figures again, with the runtime of Vega."""
    return str(render.renderer().javascript_bundle(frame.text("interactive.js")))
