"""The errors of each framework relative to the reference, as a table or as Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from suite.parity.certificates import Certificate
from suite.protocol.plan import Trial
from suite.report.numbers import UNKNOWN, yes_no
from suite.report.table import JUSTIFY, markdown_of

QUANTITIES = {
    "logits": "logits",
    "inference": "infer.",
    "loss": "loss",
    "gradients": "grad.",
    "weights": "weig.",
    "updates": "upd.",
    "statistics": "stat.",
}
NOTE = (
    "Largest relative L2 errors over the steps, compared with the float64 reference. share: the"
    " largest as a share of its tolerance, which is 1e-4 (TF32: 1e-2, bf16_mixed: 4e-2), or a"
    " multiple of the rounding error where that is more. proven: all errors are within their"
    " tolerance."
)

Row = tuple[Trial, Certificate | None, str | None]  # last: the reason where it is not proven


def render(rows: Iterable[Row]) -> Group:
    """A row for each trial, and the reason for each that is not proven."""
    rows = list(rows)
    table = Table(caption=NOTE, box=box.SIMPLE_HEAD, caption_justify="left", padding=(0, 1, 0, 0))
    cells = [_cells(trial, certificate) for trial, certificate, _ in rows]
    for name in cells[0]:
        left = JUSTIFY.get(name, "left" if name in ("model", "optimizer") else "right")
        table.add_column(name, justify=left, no_wrap=True)
    for row in cells:
        table.add_row(*row.values())
    return Group(table, *(Text(reason) for reason in _reasons(rows)))


def markdown(rows: Iterable[Row]) -> str:
    """The same table as Markdown, with the reason for each row that is not proven."""
    rows = list(rows)
    cells = [_cells(trial, certificate) for trial, certificate, _ in rows]
    table = markdown_of(cells)
    reasons = "\n".join(_reasons(rows))
    return "\n\n".join([NOTE, table, *([reasons] if reasons else [])])


def _reasons(rows: Iterable[Row]) -> list[str]:
    """A line for each row that is not proven."""
    return [
        f"- {trial.configuration} on {trial.workload.model}: {reason}"
        for trial, certificate, other in rows
        if (reason := certificate.reason if certificate else other)
    ]


def _cells(trial: Trial, certificate: Certificate | None) -> dict[str, str]:
    workload = trial.workload
    worst = certificate.worst if certificate else {}
    steps = f"{len(certificate.errors)}/{certificate.steps}" if certificate else UNKNOWN
    proven = certificate is not None and certificate.proven
    return {
        "model": workload.model,
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
