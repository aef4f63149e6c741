"""The summary of a run as Markdown that can be pasted: where and when, the tables, the warnings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from suite.report import best_table, ladder, ladder_table, rates_table
from suite.report.cells import cells_of
from suite.report.notes import errors_of, warnings_of
from suite.report.table import markdown_of
from suite.report.titles import made_with
from suite.results.index import started_at

if TYPE_CHECKING:
    from suite.report.run_data import RunData
    from suite.report.summary import TrialSummary


def of_run(run: RunData) -> str:
    """The best rows where there are several workloads, and a table of each workload."""
    parts = [f"**{run.title}**, {started_at(run.folder):%Y-%m-%d}, {made_with(run.records)}"]
    if rungs := ladder.rows(run.trials, ladder.read(run.folder)):
        parts.append(ladder_table.markdown(rungs))
    for title, rows in best_table.tables(run.trials):
        parts += [f"### {title}", markdown_of(rows)]
    for title, trials, shown in rates_table.tables(run.trials):
        parts += [f"### {title}", markdown_of(cells_of(shown, run.peak)), *_notes(trials)]
    return "\n\n".join([*parts, rates_table.LEGEND])


def _notes(trials: Sequence[TrialSummary]) -> Iterator[str]:
    """The errors, and all warnings as one line."""
    if errors := errors_of(trials):
        yield "\n".join(f"- {text}" for text in errors)
    found = [f"{kind}: {', '.join(rows)}" for (kind, _), rows in warnings_of(trials).items()]
    if found:
        yield f"Warnings: {'; '.join(found)}."
