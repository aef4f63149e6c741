"""The findings of the self-test, as a table for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.table import Table

from suite.report.numbers import UNKNOWN

if TYPE_CHECKING:
    from suite.runner.selftest.selftest import Finding


def render(findings: list[Finding]) -> Table:
    """A row for each fault, and for each framework variant without a fault."""
    planted = [each for each in findings if each.fault]
    clean = [each for each in findings if not each.fault]
    caught = sum(each.good for each in planted)
    alarms = sum(not each.good for each in clean)
    table = Table(
        title=f"self-test: {caught} of {len(planted)} faults found, "
        f"{alarms} false alarms in {len(clean)} workers without a fault",
        box=box.SIMPLE_HEAD,
        title_justify="left",
        padding=(0, 1, 0, 0),
    )
    for name in ("fault", "framework", "variant", "precision", "devices", "found by", ""):
        table.add_column(name, justify="left", no_wrap=name != "found by")
    for each in findings:
        verdict = "ok" if each.good else "FAILED"
        worker = (each.framework, each.variant, each.precision, each.device)
        table.add_row(each.fault or "none", *worker, each.caught_by or UNKNOWN, verdict)
    return table


def line(finding: Finding) -> str:
    """A finding as one line, shown as soon as it is known."""
    worker = f"{finding.framework}:{finding.variant}"
    if finding.fault:
        outcome = f"found by {finding.caught_by}" if finding.good else "NOT FOUND"
        return f"{finding.fault} in {worker}: {outcome}"
    return f"without a fault, {worker}: {'ok' if finding.good else f'ALARM, {finding.caught_by}'}"
