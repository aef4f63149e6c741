"""The section of parity: the error of each tensor against its tolerance, and the closing proofs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from suite.report.figures.figure import tags_of
from suite.report.figures.parity import tensors
from suite.report.html.parts import Row, Table
from suite.report.numbers import UNKNOWN, number, yes_no
from suite.report.summary import TrialSummary
from suite.report.titles import work_of

if TYPE_CHECKING:
    from suite.report.run_data import RunData

MOST_TABLES = 12  # trials with a table of tensors
MOST_TENSORS = 100  # in a table


def statuses(run: RunData) -> Table:
    """How each trial is proven: by its certificate and by the closing proof of its runs."""
    cells = [_cells(run, trial) for trial in run.trials]
    for column in ("answers", "visible updates"):  # of inference, and of training
        if all(each[column] == UNKNOWN for each in cells):
            cells = [{name: each[name] for name in each if name != column} for each in cells]
    tagged = zip(cells, run.trials, strict=True)
    rows = [Row(cells=each, tags=tags_of(trial)) for each, trial in tagged]
    return Table(caption="Proof of each trial", rows=rows)


def _cells(run: RunData, trial: TrialSummary) -> dict[str, str]:
    certificate = run.certificates.get(trial.record.trial_id)
    closing = trial.parity.closing
    return {
        "trial": run.label(trial),
        "workload": work_of(trial),
        "same work": yes_no(trial.parity.proven),
        "steps": number(trial.parity.steps, "{}"),
        "largest share": number(certificate.share if certificate else None, "{:.2g}"),
        "closing proof": yes_no(closing.proven) if closing else UNKNOWN,
        "answers": number(closing.answers if closing else None, "{:,}"),
        "its largest share": number(closing.share if closing else None, "{:.2g}"),
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
        yield Table(caption=f"{run.label(trial)}, {work_of(trial)}{more}", rows=rows)
