"""The summary of a run as a table for the terminal, readable without colour and when piped."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from suite import manifest
from suite.records import Record
from suite.report.summary import TrialSummary

PIPED_WIDTH = 120
PROVEN, UNPROVEN, UNKNOWN = "=", "?", "-"


def console(*, stderr: bool = False) -> Console:
    """A console as wide as the terminal, or wide enough for the table where there is none."""
    found = Console(stderr=stderr, highlight=False)
    if not found.is_terminal:
        return Console(stderr=stderr, highlight=False, width=PIPED_WIDTH)
    return found


def render(summaries: list[TrialSummary]) -> RenderableType:
    """One table for each workload, with notes on what did not go well."""
    parts: list[RenderableType] = []
    for title, group in groupby(sorted(summaries, key=_order), key=lambda each: _title(each)):
        trials = list(group)
        parts += [_table(title, trials), *_notes(trials)]
    return Group(*parts)


def _order(summary: TrialSummary) -> tuple[str, float]:
    return _title(summary), -(summary.samples_per_s.median or 0)


def _title(summary: TrialSummary) -> str:
    record = summary.record
    optimizer = f"{record.optimizer['name']} {record.optimizer['learning_rate']:g}"
    return (
        f"{record.model} on {record.dataset}, {record.mode}, batch {record.batch_size}, "
        f"{record.precision}, {optimizer}, {_device(record)}, track {record.track}"
    )


def _device(record: Record) -> str:
    return f"{record.device} ({len(record.environment['cpus'])} cores)"


def _table(title: str, trials: list[TrialSummary]) -> Table:
    table = Table(
        title=title,
        box=box.SIMPLE_HEAD,
        title_justify="left",
        title_style="bold",
        padding=(0, 1, 0, 0),
    )
    # Names may break where the terminal is narrow, figures may not.
    table.add_column("framework")
    table.add_column("variant")
    for name in ("images/s", "spread", "rel.", "first step", "epoch", "accuracy", "memory"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("par.", justify="center", no_wrap=True)
    table.add_column("status")
    fastest = trials[0].samples_per_s.median
    for trial in trials:
        table.add_row(*_cells(trial, fastest))
    return table


def _cells(trial: TrialSummary, fastest: float | None) -> Iterator[str]:
    rate = trial.samples_per_s
    title = manifest.framework(trial.record.framework).title
    yield f"{title} {trial.framework_version or ''}".strip()
    yield trial.record.variant
    yield _number(rate.median, "{:,.0f}")
    yield _number(rate.spread, "±{:.1%}")
    yield _number(rate.median / fastest if rate.median and fastest else None, "{:.2f}")
    yield _number(trial.first_step_s, "{:.2f} s")
    yield _number(trial.epoch_s, "{:.1f} s")
    yield _number(trial.accuracy, "{:.2%}")
    memory = trial.host_rss_peak_bytes
    yield _number(memory / 2**20 if memory else None, "{:,.0f} MiB")
    yield PROVEN if trial.parity.proven else UNPROVEN
    bad = sum(status != "ok" for status in trial.statuses)
    yield trial.status + (f" ({bad} of {len(trial.statuses)} runs)" if bad else "")


def _number(value: float | None, form: str) -> str:
    return UNKNOWN if value is None else form.format(value)


def _notes(trials: list[TrialSummary]) -> Iterator[Text]:
    for trial in trials:
        name = f"{trial.record.framework} {trial.record.variant}"
        if trial.error:
            yield Text(f"{name}: {trial.error.message}")
            if trial.error.hint:
                yield Text(f"  hint: {trial.error.hint}")
        elif not trial.parity.proven:
            yield Text(f"{name}: not proven to be the same work: {trial.parity.reason}")
            yield Text(f"  hint: dlsuite parity --framework {trial.record.framework}")
    runs = max(len(trial.statuses) for trial in trials)
    yield Text(
        f"median of runs in fresh processes ({runs} each), spread: half the 95 % interval; "
        "rel.: to the fastest; memory: peak of the host process; "
        "par.: = proven to be the same work, ? not"
    )
