"""The summary of a run as a table for the terminal, readable without colour and when piped."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from rich import box
from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from suite import manifest
from suite.limit import Limit, share
from suite.records import Record
from suite.report.summary import TrialSummary

PIPED_WIDTH = 120
PROVEN, UNPROVEN, UNKNOWN = "=", "?", "-"
ENERGY, OF_LIMIT = "J/image, net", "of peak"
OPTIONAL = (OF_LIMIT, ENERGY)  # columns that are there where a row has them
DISPENSABLE = ("first step", "memory", "epoch", "rel.", "runs", ENERGY, OF_LIMIT, "variant")
JUSTIFY: dict[str, JustifyMethod] = {
    "framework": "left",
    "variant": "left",
    "track": "left",
    "par.": "center",
    "status": "left",
}


def console(*, stderr: bool = False) -> Console:
    """A console as wide as the terminal, or wide enough for the table where there is none."""
    found = Console(stderr=stderr, highlight=False)
    if not found.is_terminal:
        return Console(stderr=stderr, highlight=False, width=PIPED_WIDTH)
    return found


def render(
    summaries: list[TrialSummary], width: int = PIPED_WIDTH, limit: Limit | None = None
) -> RenderableType:
    """One table for each workload, with notes on what did not go well.

    Where `width` is too small, whole columns go, the least needed first; none is cut.
    """
    parts: list[RenderableType] = []
    for title, group in groupby(sorted(summaries, key=_order), key=lambda each: title_of(each)):
        trials = list(group)
        parts += [_table(title, trials, width, limit), *_notes(trials)]
    return Group(*parts)


def _order(summary: TrialSummary) -> tuple[str, float]:
    return title_of(summary), -(summary.samples_per_s.median or 0)


def title_of(summary: TrialSummary) -> str:
    """The trial's workload, in words."""
    record = summary.record
    optimizer = f"{record.optimizer['name']} {record.optimizer['learning_rate']:g}"
    return (
        f"{record.model} on {record.dataset}, {record.mode}, batch {record.batch_size}, "
        f"{record.precision}, {optimizer}, input from {record.input}, {_device(record)}"
        + (f", {record.turns} in turns" if record.turns > 1 else "")
    )


def _device(record: Record) -> str:
    return f"{record.device} ({len(record.environment['cpus'])} cores)"


def _table(title: str, trials: list[TrialSummary], width: int, limit: Limit | None) -> Table:
    proven = [trial for trial in trials if trial.parity.proven] or trials
    fastest = proven[0].samples_per_s.median
    rows = [_cells(trial, fastest, limit) for trial in trials]
    of_rows = {name: {row[name] for row in rows} for name in rows[0]}
    columns = [name for name in rows[0] if name not in OPTIONAL or of_rows[name] != {UNKNOWN}]
    if len(of_rows["track"]) == 1:
        columns.remove("track")
        title += f", track {rows[0]['track']}"
    for spare in DISPENSABLE:
        widths = [max(len(name), *(len(row[name]) for row in rows)) for name in columns]
        if sum(widths) + 2 * len(columns) <= width:
            break
        if spare in columns:
            columns.remove(spare)
    table = titled(title)
    for name in columns:
        table.add_column(name, justify=JUSTIFY.get(name, "right"), no_wrap=True)
    # Each column is one cell of many lines: Rich takes a third of the time of a cell for each value.
    table.add_row(*(Text("\n".join(row[name] for row in rows)) for name in columns))
    return table


def titled(title: str) -> Table:
    """An empty table in the suite's manner."""
    return Table(
        title=title,
        box=box.SIMPLE_HEAD,
        title_justify="left",
        title_style="bold",
        caption_justify="left",
        padding=(0, 1, 0, 0),
    )


def _cells(trial: TrialSummary, fastest: float | None, limit: Limit | None) -> dict[str, str]:
    reached = share(trial.record, trial.samples_per_s.median, limit)
    rate, memory = trial.samples_per_s, trial.host_rss_peak_bytes
    title = manifest.framework(trial.record.framework).title
    bad = sum(status != "ok" for status in trial.statuses)
    return {
        "framework": f"{title} {trial.framework_version or ''}".strip(),
        "variant": trial.record.variant,
        "track": trial.record.track + (" (TF32)" if trial.record.arithmetic == "tf32" else ""),
        "images/s": rate_of(rate.median),
        "runs": str(len(trial.statuses)),
        "spread": _number(rate.spread, "±{:.1%}"),
        "rel.": _number(rate.median / fastest if rate.median and fastest else None, "{:.2f}"),
        OF_LIMIT: f"{reached.compute:.0%} ({reached.near})" if reached else UNKNOWN,
        "first step": _number(trial.first_step_s, "{:.2f} s"),
        "epoch": _number(trial.epoch_s, "{:.1f} s"),
        "accuracy": _number(trial.accuracy, "{:.2%}"),
        "memory": _number(memory / 2**20 if memory else None, "{:,.0f} MiB"),
        ENERGY: _energy(trial),
        "par.": PROVEN if trial.parity.proven else UNPROVEN,
        "status": trial.status + (f" ({bad} of {len(trial.statuses)} runs)" if bad else ""),
    }


def _energy(trial: TrialSummary) -> str:
    energy = trial.energy
    if energy is None:
        return UNKNOWN
    return f"{energy.gross_j_per_sample:.3g}, {_number(energy.net_j_per_sample, '{:.3g}')}"


def rate_of(samples_per_s: float | None) -> str:
    """Whole samples a second, with three digits where there are fewer than a hundred."""
    slow = samples_per_s is not None and samples_per_s < 99.5
    return _number(samples_per_s, "{:.3g}" if slow else "{:,.0f}")


def _number(value: float | None, form: str) -> str:
    return UNKNOWN if value is None else form.format(value)


def _notes(trials: list[TrialSummary]) -> Iterator[Text]:
    for trial in trials:
        if trial.error:
            yield Text(f"{trial.record.means}: {trial.error.message}")
            if trial.error.hint:
                yield Text(f"  hint: {trial.error.hint}")
    yield from _doubts(trials)
    if any(trial.record.repeats.at_least < trial.record.repeats.at_most for trial in trials):
        why = ", ".join(f"{trial.record.means} {trial.enough or 'not yet'}" for trial in trials)
        yield Text(f"why no more runs: {why}")
    yield Text(
        "images/s, first step: median over runs, each a fresh process; spread: half the bootstrap "
        "interval of images/s (of 3 or 4 runs: from the lowest to the highest); rel.: to the "
        "fastest proven; epoch, accuracy: of the first run; memory: largest peak of the host "
        "process; "
        "of peak: of the best matrix product of any framework here, and what the row is near to; "
        "J/image: of the GPU, else of the CPU's packages; net: less what the idle machine takes; "
        "par.: = proven to be the same work, before the run and at its end, ? not"
    )


def _doubts(trials: list[TrialSummary]) -> Iterator[Text]:
    """Each kind of doubt once, with all the trials that it concerns."""
    found: dict[tuple[str, str], list[str]] = {}
    for trial in trials:
        for doubt in trial.doubts:
            detail = f"{trial.record.means} ({doubt.detail})"
            found.setdefault((doubt.kind, doubt.hint), []).append(detail)
    for (kind, hint), details in found.items():
        yield Text(f"warning: {kind}: {', '.join(details)}")
        yield Text(f"  hint: {hint}")
