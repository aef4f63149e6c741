"""The summary of a run as a table for the terminal, readable without color and when piped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from textwrap import fill

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from suite.manifests import catalog
from suite.report.best import ids
from suite.report.numbers import UNKNOWN, number, rate_of, yes_no
from suite.report.summary import TrialSummary
from suite.report.table import (
    ENERGY,
    INTERVAL,
    JUSTIFY,
    MFU,
    PIPED_WIDTH,
    SAME_WORK,
    TOKENS,
    lines_of,
    markdown_of,
    titled,
)
from suite.results.record import Record
from suite.results.roofline import HardwarePeak, share

OPTIONAL = (
    TOKENS,
    MFU,
    "epoch",
    "accuracy",
    ENERGY,
)  # columns that are shown only where a row has a value
DISPENSABLE = ("first step", "memory", "epoch", "vs best", "runs", ENERGY, MFU, "variant")
LEGEND = (  # two lines of 80 characters
    "Medians over runs, each a fresh process. same work: proven equal to a float64 "
    "reference. `dlsuite explain COLUMN` describes each column."
)


def render(
    summaries: list[TrialSummary], width: int = PIPED_WIDTH, peak: HardwarePeak | None = None
) -> RenderableType:
    """One table for each workload, with errors and warnings below it; the best rows are bold.

    Where `width` is too small, whole columns are omitted, the least important first; where the rest
    is still too wide, headings are folded.
    """
    parts: list[RenderableType] = []
    best_ids = ids(summaries)
    for title, group in groupby(sorted(summaries, key=order), key=title_of):
        trials = list(group)
        notes = [Text(line) for line in notes_of(trials)]
        parts += [_table(title, trials, width, peak, best=best_ids), *notes]
    return Group(*parts, Text(LEGEND))


def order(summary: TrialSummary) -> tuple[object, ...]:
    """A key that sorts trials by workload, then fastest first."""
    workload = summary.record.workload
    of_workload = (workload.model, workload.precision, workload.input, workload.batch_size)
    return *of_workload, title_of(summary), -(summary.samples_per_s.median or 0)


def title_of(summary: TrialSummary) -> str:
    """A title that describes the trial's workload."""
    record, workload = summary.record, summary.record.workload
    return (
        f"{workload.model} on {workload.dataset}, {workload.mode}, batch {workload.batch_size}, "
        f"{workload.precision}, {workload.way}, input from {workload.input}, {_device(record)}"
        + (", synchronized batch norm" if workload.batch_norm == "synchronized" else "")
        + (f", {record.interleaved} interleaved" if record.interleaved > 1 else "")
    )


def name_of(summary: TrialSummary) -> str:
    """The framework's title, the variant, and the track where it is not `equal`."""
    record = summary.record
    track = "" if record.track == "equal" else f", {record.track}"
    return f"{catalog.framework(record.framework).title} {record.variant}{track}"


def _device(record: Record) -> str:
    return f"{record.device} ({record.cores} {'core' if record.cores == 1 else 'cores'})"


def _table(
    title: str,
    trials: list[TrialSummary],
    width: int,
    peak: HardwarePeak | None,
    *,
    best: set[str],
) -> Table:
    rows = cells_of(trials, peak)
    columns = [*rows[0]]
    values = {name: {row[name] for row in rows} for name in columns}
    if len(values["track"]) == 1:
        columns.remove("track")
        title += f", track {rows[0]['track']}"
    for omitted in DISPENSABLE:
        if _fits(columns, rows, width):
            break
        if omitted in columns:
            columns.remove(omitted)
    fold = not _fits(columns, rows, width)
    table = titled(title)
    for name in columns:
        longest = max(len(text) for text in (*name.split(), *values[name]))
        heading = fill(name, longest) if fold else name
        table.add_column(heading, justify=JUSTIFY.get(name, "right"), no_wrap=True)
    # Each column is one cell with many lines: with a cell for each value, Rich takes three times as
    # long.
    styles = ["bold" if trial.record.trial_id in best else "" for trial in trials]
    table.add_row(*(lines_of([row[name] for row in rows], styles) for name in columns))
    return table


def cells_of(trials: Sequence[TrialSummary], peak: HardwarePeak | None) -> list[dict[str, str]]:
    """The cells of each trial of a workload, by column, without optional columns that no row has.

    Rates are compared with the first proven trial.
    """
    proven = [trial for trial in trials if trial.parity.proven] or trials
    rows = [_cells(trial, proven[0].samples_per_s.median, peak) for trial in trials]
    values = {name: {row[name] for row in rows} for name in rows[0]}
    columns = [name for name in rows[0] if name not in OPTIONAL or values[name] != {UNKNOWN}]
    return [{name: row[name] for name in columns} for row in rows]


def _fits(columns: list[str], rows: list[dict[str, str]], width: int) -> bool:
    """Whether a table with these columns is at most `width` characters wide."""
    widths = [max(len(name), *(len(row[name]) for row in rows)) for name in columns]
    return sum(widths) + 2 * len(columns) <= width


def _cells(trial: TrialSummary, fastest: float | None, peak: HardwarePeak | None) -> dict[str, str]:
    reached = share(trial.record, trial.samples_per_s.median, peak)
    rate, memory = trial.samples_per_s, trial.host_rss_peak_bytes
    title = catalog.framework(trial.record.framework).title
    bad = sum(status != "ok" for status in trial.statuses)
    return {
        "framework": f"{title} {trial.framework_version or ''}".strip(),
        "variant": trial.record.variant,
        "track": trial.record.track + (" (TF32)" if trial.record.arithmetic == "tf32" else ""),
        "samples/s": rate_of(rate.median),
        TOKENS: number(trial.tokens_per_s, "{:,.0f}"),
        INTERVAL: number(rate.spread, "±{:.1%}"),
        "runs": str(len(trial.statuses)),
        "vs best": number(rate.median / fastest if rate.median and fastest else None, "{:.2f}"),
        MFU: f"{reached.compute:.0%}" if reached else UNKNOWN,
        "first step": number(trial.first_step_s, "{:.2f} s"),
        "epoch": number(trial.epoch_s, "{:.1f} s"),
        "accuracy": number(trial.accuracy, "{:.2%}"),
        "memory": number(memory / 2**20 if memory else None, "{:,.0f} MiB"),
        ENERGY: _energy(trial),
        SAME_WORK: yes_no(trial.parity.proven),
        "status": trial.status + (f" ({bad} of {len(trial.statuses)} runs)" if bad else ""),
    }


def _energy(trial: TrialSummary) -> str:
    energy = trial.energy
    if energy is None:
        return UNKNOWN
    return f"{energy.gross_j_per_sample:.3g} ({number(energy.net_j_per_sample, '{:.3g}')})"


def notes_of(trials: Sequence[TrialSummary]) -> Iterator[str]:
    """The lines below a workload's table: errors, warnings, and reasons to stop."""
    for trial in trials:
        if trial.error:
            yield f"{trial.record.configuration}: {trial.error.message}"
            if trial.error.hint:
                yield f"  hint: {trial.error.hint}"
    for (kind, hint), details in warnings_of(trials).items():
        yield f"warning: {kind}: {', '.join(details)}"
        yield f"  hint: {hint}"
    if any(trial.record.repeats.at_least < trial.record.repeats.at_most for trial in trials):
        reasons = ", ".join(
            f"{trial.record.configuration} {trial.stop_reason or 'not yet'}" for trial in trials
        )
        yield f"stop reason: {reasons}"


def warnings_of(trials: Sequence[TrialSummary]) -> dict[tuple[str, str], list[str]]:
    """Each kind of warning and its hint once, with all the trials that it concerns."""
    found: dict[tuple[str, str], list[str]] = {}
    for trial in trials:
        for warning in trial.warnings:
            detail = f"{trial.record.configuration} ({warning.detail})"
            found.setdefault((warning.kind, warning.hint), []).append(detail)
    return found


def markdown(summaries: Sequence[TrialSummary], peak: HardwarePeak | None = None) -> str:
    """A heading, a table and its notes for each workload."""
    parts = []
    for title, group in groupby(sorted(summaries, key=order), key=title_of):
        trials = list(group)
        notes = "\n".join(f"- {line.strip()}" for line in notes_of(trials))
        parts += [f"### {title}", markdown_of(cells_of(trials, peak)), *([notes] if notes else [])]
    return "\n\n".join([*parts, LEGEND])
