"""The first section: which framework is fastest in each workload, and what to know about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from suite.report import throughput
from suite.report.cells import cells_of, latencies_in
from suite.report.figures.figure import Tags, tags_of, work_tags
from suite.report.figures.rates import rates
from suite.report.figures.throughput import throughput as of_batches
from suite.report.html.parts import Plot, Row, Table
from suite.report.notes import errors_of, warnings_of
from suite.report.numbers import interval_of, with_unit
from suite.report.summary import TrialSummary

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
    rows = [Row(cells=row, tags=tags_of(trial)) for row, trial in zip(cells, shown, strict=True)]
    return Answer(
        title=title,
        sentence=_sentence(run, title, trials),
        plot=plot,
        table=Table(caption=_caption(trials, title), rows=rows),
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


def _caption(trials: Sequence[TrialSummary], title: str) -> str:
    kind = "Latencies" if trials[0].metric.lower_is_better else "Rates"
    return f"{kind}: {title}{latencies_in(trials)}"


def _sentence(run: RunData, title: str, trials: Sequence[TrialSummary]) -> str:
    """The fastest proven trial, its metric, and the trials to which no difference is shown."""
    proven = [trial for trial in trials if trial.values and trial.parity.proven]
    if not proven:
        return "No trial is both measured and proven to be the same work."
    best, found = proven[0], proven[0].measured
    metric, interval = best.metric, ""
    if found.ci_low is not None and found.ci_high is not None:
        interval = f" (95 % interval {interval_of(found.ci_low, found.ci_high, metric)})"
    claim = "is fastest" if len(proven) > 1 else "is the only proven trial"
    of = f"{metric.name} " if metric.lower_is_better else ""
    text = f"{run.label(best)} {claim}: {of}{with_unit(found.median, metric)}{interval}."
    return " ".join([text, *_without_difference(run, title)])


def _without_difference(run: RunData, title: str) -> Iterator[str]:
    """To which other proven trials the difference is not shown."""
    verdicts: dict[str, list[str]] = {}
    for pair in run.ratios.get(title, ()):
        if pair.difference:
            verdicts.setdefault(pair.difference.verdict, []).append(run.label(pair.b))
    if equal := verdicts.get("no difference shown"):
        yield f"No difference is shown to {', '.join(equal)}."
    if untested := verdicts.get("too few runs"):
        yield f"Too few runs to test the difference to {', '.join(untested)}."
