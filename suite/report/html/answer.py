"""The first section: which framework is fastest in each workload, and what to know about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from suite.report import headline, throughput
from suite.report.cells import Cells, cells_of, latencies_in, unit_of
from suite.report.figures.figure import Tags, tags_of, work_tags
from suite.report.figures.rates import rates
from suite.report.figures.throughput import throughput as of_batches
from suite.report.html.parts import Plot, Row, Table
from suite.report.notes import errors_of, warnings_of
from suite.report.summary import TrialSummary
from suite.report.table import SAME_WORK

if TYPE_CHECKING:
    from suite.report.run_data import RunData

MOST_PLOTS = 12  # workloads with a figure


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer for one workload."""

    title: str
    sentence: str
    plot: Plot | None
    table: Table
    warnings: dict[tuple[str, str], list[str]]  # kind and hint -> the trials that it concerns
    errors: list[str]
    skipped: list[str]  # what was not tried, and why
    tags: Tags


def answers(run: RunData) -> list[Answer]:
    """An answer for each workload."""
    drawn = [trial for trials in [*run.by_workload.values()][:MOST_PLOTS] for trial in trials]
    shown = run.only(drawn)
    figures = {figure.about: figure for make in (rates, of_batches) for figure in make(shown)}
    return [
        _answer(run, title, trials, Plot(figure=figures[title]) if title in figures else None)
        for title, trials in run.by_workload.items()
    ]


def _answer(run: RunData, title: str, trials: Sequence[TrialSummary], plot: Plot | None) -> Answer:
    shown = _with_row(trials)
    cells = cells_of(shown, run.peak)
    rows = [
        Row(cells=_proof_in_sight(row), tags=tags_of(trial))
        for row, trial in zip(cells, shown, strict=True)
    ]
    return Answer(
        title=title,
        sentence=headline.of_workload(run, title, trials),
        plot=plot,
        table=Table(caption=_caption(trials), rows=rows, about=title),
        warnings=warnings_of(trials),
        errors=list(errors_of(trials, skipped=False)),
        skipped=list(errors_of(trials, skipped=True)),
        tags=work_tags(trials[0]),
    )


def _with_row(trials: Sequence[TrialSummary]) -> list[TrialSummary]:
    """The trials that have a row, those of scenario offline by configuration and batch size."""
    if not throughput.is_offline(trials[0]):
        return [*trials]
    return [each for series in throughput.series(trials) for each in throughput.tried(series)]


def _proof_in_sight(cells: Cells) -> Cells:
    """The cells with the proof and the status beside the ratio: a wide table is scrolled."""
    moved = {name: cells[name] for name in (SAME_WORK, "status")}
    ordered: Cells = {}
    for name in cells:
        if name not in moved:
            ordered[name] = cells[name]
        if name == "vs best":
            ordered |= moved
    return ordered


def _caption(trials: Sequence[TrialSummary]) -> str:
    if trials[0].metric.lower_is_better:
        return f"Latencies of each trial in {unit_of(trials).symbol}"
    return f"Rates of each trial{latencies_in(trials)}"
