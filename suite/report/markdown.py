"""The summary of a run as Markdown that can be pasted: where and when, the tables, the warnings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from suite.report import best_table, headline, ladder, ladder_table, rates_table, throughput
from suite.report.cells import Cells, cells_of
from suite.report.notes import confidences_of, errors_of, warnings_of
from suite.report.numbers import UNKNOWN
from suite.report.table import markdown_of
from suite.report.titles import made_with, work_of_all_batches
from suite.results.index import started_at

if TYPE_CHECKING:
    from suite.report.run_data import RunData
    from suite.report.summary import TrialSummary

    # Of rates_table.tables: the title, the trials, and those that have a row.
    Table = tuple[str, list[TrialSummary], list[TrialSummary]]

WORK = "work"  # the column that names a row's workload, where a table has several


def of_run(run: RunData) -> str:
    """The best rows where there are several workloads, and a table of all rows.

    Rows of training, of throughput, of latencies and of scenario server have other columns each, so
    each has a table.
    """
    parts = [f"**{run.title}**, {started_at(run.folder):%Y-%m-%d}, {made_with(run.records)}"]
    if answer := headline.of_run(run):
        parts.append(answer)
    if rungs := ladder.rows(run.trials, ladder.read(run.folder)):
        parts.append(ladder_table.markdown(rungs))
    for title, rows in best_table.tables(run.trials):
        parts += [f"### {title}", markdown_of(rows)]
    kinds: dict[str, dict[str, list[Cells]]] = {}
    tables = [*rates_table.tables(run.trials)]
    for work, trials in _works(tables).items():
        kinds.setdefault(_kind(trials[0]), {})[work] = cells_of(trials, run.peak)
    for works in kinds.values():
        parts += _table(works)
    return "\n\n".join([*parts, *_notes(run.trials, tables), rates_table.LEGEND])


def _works(tables: Sequence[Table]) -> dict[str, list[TrialSummary]]:
    """The trials with a row by the name of their workload; all batch sizes of offline together."""
    found: dict[str, list[TrialSummary]] = {}
    for title, group, shown in tables:
        work = work_of_all_batches(group[0]) if throughput.is_offline(group[0]) else title
        found.setdefault(work, []).extend(shown)
    return found


def _kind(trial: TrialSummary) -> str:
    """What the columns of a row depend on."""
    workload = trial.record.workload
    if workload.scenario in (None, "offline"):
        return workload.scenario or "training"
    return "server" if workload.latency_bound_s else "latencies"


def _table(works: dict[str, list[Cells]]) -> Iterator[str]:
    """One table; the workload is a heading where there is one, else a column."""
    columns = dict.fromkeys(name for rows in works.values() for row in rows for name in row)
    several = len(works) > 1
    if not several:
        yield f"### {next(iter(works))}"
    yield markdown_of(
        [
            {**({WORK: work} if several else {}), **dict.fromkeys(columns, UNKNOWN), **row}
            for work, rows in works.items()
            for row in rows
        ]
    )


def _notes(trials: Sequence[TrialSummary], tables: Sequence[Table]) -> Iterator[str]:
    """The errors of each workload, all warnings as one line, and the confidence of intervals."""
    errors = [
        f"- {title}: {text}" if len(tables) > 1 else f"- {text}"
        for title, group, _ in tables
        for text in errors_of(group)
    ]
    if errors:
        yield "\n".join(errors)
    found = [f"{kind}: {', '.join(rows)}" for (kind, _), rows in warnings_of(trials).items()]
    if found:
        yield f"Warnings: {'; '.join(found)}."
    if lines := [*confidences_of(trials)]:
        yield f"{'; '.join(lines)}."
