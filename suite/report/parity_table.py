"""How far each framework is from the reference, as a table for the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.table import Table

from suite.parity import STEPS, TOLERANCE, Certificate
from suite.plan import Trial
from suite.report.table import PROVEN, UNKNOWN, UNPROVEN

QUANTITIES = ("logits", "loss", "gradients", "weights", "updates")

Row = tuple[Trial, Certificate | None]


def render(rows: Iterable[Row]) -> Table:
    """A row for each trial; one without a certificate could not be compared."""
    table = Table(
        title=f"largest relative L2 error over {STEPS} steps beside the float64 reference",
        caption=f"= all within {TOLERANCE:.0e}: proven to be the same work; ? not",
        box=box.SIMPLE_HEAD,
        title_justify="left",
        caption_justify="left",
        padding=(0, 1, 0, 0),
    )
    for name in ("framework", "variant", "model", *QUANTITIES, "par."):
        table.add_column(name, justify="right" if name in QUANTITIES else "left", no_wrap=True)
    for trial, certificate in rows:
        worst = certificate.worst if certificate else {}
        errors = (f"{worst[name]:.1e}" if name in worst else UNKNOWN for name in QUANTITIES)
        mark = PROVEN if certificate and certificate.proven else UNPROVEN
        table.add_row(trial.framework, trial.variant, trial.workload.model, *errors, mark)
    return table
