"""The first section: which framework is fastest in each workload, and what to know about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from suite.report import rates_table
from suite.report.figures.figure import Tags, tags_of, work_tags
from suite.report.figures.rates import rates
from suite.report.html.parts import Plot, Row, Table
from suite.report.numbers import rate_of
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
    tags: Tags


def answers(run: RunData) -> list[Answer]:
    """An answer for each workload."""
    drawn = [trial for trials in [*run.by_workload.values()][:MOST_PLOTS] for trial in trials]
    figures = {figure.about: figure for figure in rates(run.only(drawn))}
    return [
        _answer(run, title, trials, Plot(figure=figures[title]) if title in figures else None)
        for title, trials in run.by_workload.items()
    ]


def _answer(run: RunData, title: str, trials: Sequence[TrialSummary], plot: Plot | None) -> Answer:
    cells = rates_table.cells_of(trials, run.peak)
    rows = [Row(cells=row, tags=tags_of(trial)) for row, trial in zip(cells, trials, strict=True)]
    return Answer(
        title=title,
        sentence=_sentence(run, title, trials),
        plot=plot,
        table=Table(caption=f"Rates: {title}", rows=rows),
        warnings=rates_table.warnings_of(trials),
        errors=[f"{run.label(each)}: {each.error.message}" for each in trials if each.error],
        tags=work_tags(trials[0]),
    )


def _sentence(run: RunData, title: str, trials: Sequence[TrialSummary]) -> str:
    """The fastest proven trial, its rate, and the trials to which no difference is shown."""
    proven = [trial for trial in trials if trial.rates and trial.parity.proven]
    if not proven:
        return "No trial is both measured and proven to be the same work."
    best, rate = proven[0], proven[0].samples_per_s
    interval = ""
    if rate.ci_low is not None and rate.ci_high is not None:
        interval = f" (95 % interval {rate_of(rate.ci_low)} to {rate_of(rate.ci_high)})"
    claim = "is fastest" if len(proven) > 1 else "is the only proven trial"
    text = f"{run.label(best)} {claim}: {rate_of(rate.median)} samples/s{interval}."
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
