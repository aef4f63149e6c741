"""The section of parity: the error of each tensor against its tolerance, and the closing proofs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from suite.report.figures.figure import Tags, tags_of, work_tags
from suite.report.figures.parity import parity, tensors
from suite.report.html.parts import Plot, Row, Table
from suite.report.numbers import UNKNOWN, number, yes_no
from suite.report.summary import TrialSummary
from suite.report.titles import title_of

if TYPE_CHECKING:
    from suite.report.run_data import RunData

MOST_PLOTS = 8  # workloads with a figure
MOST_TABLES = 12  # trials with a table of tensors
MOST_TENSORS = 100  # in a table


@dataclass(frozen=True, kw_only=True)
class Proofs:
    """The proofs of one workload."""

    title: str
    tags: Tags
    statuses: Table
    plot: Plot | None
    tensors: Sequence[Table]


def proofs(run: RunData) -> list[Proofs]:
    """The proofs of each workload; the first ones have figures and tables of tensors."""
    plots = {each.about: Plot(figure=each) for each in islice(parity(run), MOST_PLOTS)}
    tables: dict[str, list[Table]] = {}
    for table in errors(run):
        tables.setdefault(table.about, []).append(table)
    return [
        Proofs(
            title=title,
            tags=work_tags(trials[0]),
            statuses=statuses(run, title, trials),
            plot=plots.get(title),
            tensors=tables.get(title, ()),
        )
        for title, trials in run.by_workload.items()
    ]


def statuses(run: RunData, title: str, trials: Sequence[TrialSummary]) -> Table:
    """How each trial of a workload is proven: by its certificate and by its closing proof."""
    cells = [_cells(run, trial) for trial in trials]
    for column in ("answers", "visible updates"):  # of inference, and of training
        if all(each[column] == UNKNOWN for each in cells):
            cells = [{name: each[name] for name in each if name != column} for each in cells]
    tagged = zip(cells, trials, strict=True)
    rows = [Row(cells=each, tags=tags_of(trial)) for each, trial in tagged]
    return Table(caption="Proof of each trial", rows=rows, about=title)


def _cells(run: RunData, trial: TrialSummary) -> dict[str, str]:
    certificate = run.certificates.get(trial.record.trial_id)
    closing = trial.parity.closing
    return {
        "trial": run.label(trial),
        "same work": yes_no(trial.parity.proven),
        "steps": number(trial.parity.steps, "{}"),
        "largest share": number(certificate.share if certificate else None, "{:.2g}"),
        "closing proof": yes_no(closing.proven) if closing else UNKNOWN,
        "answers": number(closing.answers if closing else None, "{:,}"),
        "largest share at the end": number(closing.share if closing else None, "{:.2g}"),
        "visible updates": number(closing.visible_share if closing else None, "{:.0%}"),
        "reason": trial.parity.reason or UNKNOWN,
    }


def errors(run: RunData) -> Iterator[Table]:
    """A table of tensors for the first trials whose certificate is kept and compares any."""
    kept = [
        (trial, certificate)
        for trial in run.trials
        if (certificate := run.certificates.get(trial.record.trial_id)) and certificate.errors
    ]
    for trial, certificate in kept[:MOST_TABLES]:
        found = tensors(certificate)
        rows = [
            Row(
                cells={
                    "tensor": name,
                    "largest relative error": f"{error:.1e}",
                    "tolerance": f"{tolerance:.1e}",
                    "share of the tolerance": f"{error_share:.2g}",
                },
                tags=tags_of(trial),
            )
            for name, error, tolerance, error_share in found[:MOST_TENSORS]
        ]
        more = f", the {MOST_TENSORS} nearest of {len(found)}" if len(found) > MOST_TENSORS else ""
        caption = f"Tensors of {run.label(trial)}{more}"
        yield Table(caption=caption, rows=rows, about=title_of(trial))
