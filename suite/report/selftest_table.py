"""The findings of the self-test, as a table for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suite.report.numbers import UNKNOWN
from suite.report.table import Fitted, of_rows

if TYPE_CHECKING:
    from suite.runner.selftest.finding import Finding


def render(findings: list[Finding]) -> Fitted:
    """A row for each fault, and for each framework variant without a fault."""
    planted = [each for each in findings if each.fault]
    clean = [each for each in findings if not each.fault]
    caught = sum(each.good for each in planted)
    alarms = sum(not each.good for each in clean)
    title = (
        f"self-test: {caught} of {len(planted)} faults found, "
        f"{alarms} false alarms in {len(clean)} workers without a fault"
    )
    rows = [_cells(each) for each in findings]
    return of_rows(title, rows, left=(*rows[0],), folded=("found by",))


def _cells(finding: Finding) -> dict[str, str]:
    return {
        "fault": finding.fault or "none",
        "framework": finding.framework,
        "variant": finding.variant,
        "precision": finding.precision,
        "devices": finding.device,
        "found by": finding.caught_by or UNKNOWN,
        "verdict": "ok" if finding.good else "FAILED",
    }


def line(finding: Finding) -> str:
    """A finding as one line, shown as soon as it is known."""
    worker = f"{finding.framework}:{finding.variant}"
    if finding.fault:
        outcome = f"found by {finding.caught_by}" if finding.good else "NOT FOUND"
        return f"{finding.fault} in {worker}: {outcome}"
    return f"without a fault, {worker}: {'ok' if finding.good else f'ALARM, {finding.caught_by}'}"
