"""The summary of a run as tables for the terminal, readable without color and when piped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import Group, RenderableType
from rich.text import Text

from suite.report import throughput
from suite.report.best import ids
from suite.report.cells import cells_of, latencies_in
from suite.report.notes import notes_of
from suite.report.summary import TrialSummary
from suite.report.table import (
    BUILD,
    ENERGY,
    FIRST_INFERENCE,
    J_INFERENCE,
    MFU,
    P90_ESTIMATE,
    P99_ESTIMATE,
    PIPED_WIDTH,
    Fitted,
    of_rows,
)
from suite.report.titles import name_of, order, title_of
from suite.results.roofline import HardwarePeak

# Columns that a narrow terminal leaves out, the least important first.
DISPENSABLE = (
    *(P90_ESTIMATE, BUILD, "mean", "p95", P99_ESTIMATE, FIRST_INFERENCE, "first step"),
    *("memory", "overhead", "bound", "epoch", "p90", ENERGY, J_INFERENCE, MFU, "p99.9"),
)
IN_TITLE = ("framework", "variant", "track")  # columns that the title of a series replaces
LEGEND = (  # two lines of 80 characters
    "Medians over runs, each a fresh process. same work: proven equal to a float64 "
    "reference. `dlsuite explain COLUMN` describes each column."
)


def render(
    summaries: list[TrialSummary], width: int = PIPED_WIDTH, peak: HardwarePeak | None = None
) -> RenderableType:
    """One table for each workload, with errors and warnings below it; the best rows are bold.

    Where `width` is too small, whole columns are omitted, the least important first (table.Fitted).
    """
    parts: list[RenderableType] = []
    best_ids = ids(summaries)
    for title, trials, shown in tables(summaries):
        notes = [Text(line) for line in notes_of(trials)]
        parts += [_table(title, shown, width, peak, best=best_ids), *notes]
    return Group(*parts, Text(LEGEND))


def tables(
    summaries: Sequence[TrialSummary],
) -> Iterator[tuple[str, list[TrialSummary], list[TrialSummary]]]:
    """The title of each table, its trials, and those that have a row.

    In scenario offline with several batch sizes, each configuration has a table of them.
    """
    for title, group in groupby(sorted(summaries, key=order), key=title_of):
        trials = list(group)
        if throughput.has_batches(trials):
            for series in throughput.series(trials):
                yield f"{name_of(series[0])}: {title}", series, throughput.tried(series)
        else:
            yield title + latencies_in(trials), trials, trials


def _table(
    title: str,
    trials: list[TrialSummary],
    width: int,
    peak: HardwarePeak | None,
    *,
    best: set[str],
) -> Fitted:
    rows = cells_of(trials, peak)
    in_title: tuple[str, ...] = ()
    if title.startswith(f"{name_of(trials[0])}: "):
        in_title = IN_TITLE
    elif len({row["track"] for row in rows}) == 1:
        in_title = ("track",)
        title += f", track {rows[0]['track']}"
    shown = [{name: row[name] for name in row if name not in in_title} for row in rows]
    styles = ["bold" if trial.record.trial_id in best else "" for trial in trials]
    of_latency = ("samples/s",) if trials[0].metric.lower_is_better else ()
    one_variant = len({row["framework"] for row in rows}) == len(rows)  # of each framework
    omitted = (*DISPENSABLE, *of_latency, "runs", *["variant"] * one_variant, "vs best")
    return of_rows(title, shown, width=width, dispensable=omitted, styles=styles)
