"""The first section: which framework is fastest in each workload, and what to know about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from suite.report import throughput
from suite.report.cells import Cells, cells_of, latencies_in, unit_of
from suite.report.figures.figure import Tags, tags_of, work_tags
from suite.report.figures.rates import rates
from suite.report.figures.throughput import throughput as of_batches
from suite.report.html.parts import Plot, Row, Table
from suite.report.notes import errors_of, warnings_of
from suite.report.numbers import interval_of, listed, with_unit
from suite.report.summary import TrialSummary
from suite.report.table import SAME_WORK

if TYPE_CHECKING:
    from suite.report.run_data import RunData

MOST_PLOTS = 12  # workloads with a figure
MOST_DISTURBED = 0.1  # of the timed blocks of a workload, without a sentence about them


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
        sentence=_sentence(run, title, trials),
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


def _sentence(run: RunData, title: str, trials: Sequence[TrialSummary]) -> str:
    """Which proven trials lead, which are behind them, and whether the machine was disturbed."""
    proven = [trial for trial in trials if trial.values and trial.parity.proven]
    if not proven:
        return "No trial is both measured and proven to be the same work."
    best = proven[0]
    verdicts: dict[str, list[TrialSummary]] = {}
    for pair in run.ratios.get(title, ()):
        if pair.difference:
            verdicts.setdefault(pair.difference.verdict, []).append(pair.b)
    equal = verdicts.get("no difference shown", [])
    untested = verdicts.get("too few runs", [])
    behind = [each for each in proven[1:] if each not in (*equal, *untested)]
    if equal:
        names = listed([f"{run.label(each)} ({_measured(each)})" for each in (best, *equal)])
        parts = [f"{names} lead: no difference to the first of them is shown."]
    else:
        claim = "is fastest" if behind else "is first" if untested else "is the only proven trial"
        parts = [f"{run.label(best)} {claim}: {_measured(best)}{_interval(best)}."]
    if behind:
        parts.append(f"Behind: {listed([run.label(each) for each in behind])}.")
    if untested:
        names = listed([run.label(each) for each in untested])
        parts.append(f"Too few runs to test the difference to {names}.")
    return " ".join([*parts, *_disturbed(proven)])


def _measured(trial: TrialSummary) -> str:
    """What the trial is compared by: `2,480 samples/s`, `p50 latency 1.2 ms`."""
    metric = trial.metric
    of = f"{metric.name} " if metric.lower_is_better else ""
    return of + with_unit(trial.measured.median, metric)


def _interval(trial: TrialSummary) -> str:
    """The interval and its confidence, in brackets; empty where there is none."""
    found = trial.measured
    if found.ci_low is None or found.ci_high is None:
        return ""
    limits = interval_of(found.ci_low, found.ci_high, trial.metric)
    return f" ({100 * found.confidence:.0f} % interval {limits})"


def _disturbed(trials: Sequence[TrialSummary]) -> Iterator[str]:
    """How many of all timed blocks were disturbed, where that is a share to know."""
    runs = [run for trial in trials for run in trial.runs.values() if run.status == "ok"]
    timed = [block for run in runs for block in run.timed_blocks]
    disturbed = sum(block.disturbed for block in timed)
    if timed and disturbed > MOST_DISTURBED * len(timed):
        yield f"The machine was disturbed in {disturbed} of {len(timed)} timed blocks."
