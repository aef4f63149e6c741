"""The errors of each framework relative to the reference, as a table or as Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group
from rich.text import Text

from suite.parity.certificates import Certificate
from suite.protocol.plan import Trial
from suite.report.numbers import UNKNOWN, yes_no
from suite.report.table import PIPED_WIDTH, known_columns, markdown_of, of_rows

QUANTITIES = {
    "logits": "logits",
    "inference": "infer.",
    "loss": "loss",
    "gradients": "grad.",
    "weights": "weig.",
    "updates": "upd.",
    "statistics": "stat.",
}
# The share covers all errors, so that an error is omitted before it.
DISPENSABLE = ("optimizer", "stat.", "weig.", "loss", "steps", "grad.", "infer.", "upd.")
NOTE = (
    "Largest relative L2 errors over the steps, compared with the float64 reference. share: the"
    " largest as a share of its tolerance, which is 1e-4 (TF32: 1e-2, bf16_mixed: 4e-2), or a"
    " multiple of the rounding error where that is more. proven: all errors are within their"
    " tolerance."
)

Row = tuple[Trial, Certificate | None, str | None]  # last: the reason where it is not proven


def render(rows: Iterable[Row], width: int = PIPED_WIDTH) -> Group:
    """A row for each trial, and the reason for each that is not proven.

    Where `width` is too small, whole columns are omitted, the least important first.
    """
    rows = list(rows)
    left = ("model", "optimizer")
    cells = _known_cells(rows)
    table = of_rows("", cells, left=left, width=width, dispensable=DISPENSABLE, caption=NOTE)
    return Group(table, *(Text(reason) for reason in _reasons(rows)))


def markdown(rows: Iterable[Row]) -> str:
    """The same table as Markdown, with the reason for each row that is not proven."""
    rows = list(rows)
    reasons = "\n".join(_reasons(rows))
    return "\n\n".join([NOTE, markdown_of(_known_cells(rows)), *([reasons] if reasons else [])])


def _known_cells(rows: list[Row]) -> list[dict[str, str]]:
    """The cells of each row; quantities that no certificate has are left out."""
    cells = [_cells(trial, certificate) for trial, certificate, _ in rows]
    return known_columns(cells, QUANTITIES.values())


def _reasons(rows: Iterable[Row]) -> list[str]:
    """A line for each row that is not proven."""
    return [
        f"- {trial.configuration} on {trial.workload.model}: {reason}"
        for trial, certificate, other in rows
        if (reason := certificate.reason if certificate else other)
    ]


# After the model, by the loss.
SHORT = {
    "cross_entropy": "",
    "mean_squared_error": " (squared error)",
    "huber": " (Huber loss)",
    "binary_cross_entropy": " (several labels)",
}


def _cells(trial: Trial, certificate: Certificate | None) -> dict[str, str]:
    workload = trial.workload
    worst = certificate.worst if certificate else {}
    steps = f"{len(certificate.errors)}/{certificate.steps}" if certificate else UNKNOWN
    proven = certificate is not None and certificate.proven
    return {
        "model": workload.model + SHORT[workload.loss],
        "optimizer": workload.way.split()[0],
        "framework": trial.configuration,
        "steps": steps,
        **{
            title: f"{worst[name]:.0e}" if name in worst else UNKNOWN
            for name, title in QUANTITIES.items()
        },
        "share": f"{certificate.share:.2f}" if certificate else UNKNOWN,
        "proven": yes_no(proven),
    }
