"""The hardware peak of a device, framework by framework."""

from __future__ import annotations

from rich.table import Table

from suite.report.numbers import UNKNOWN
from suite.report.table import titled
from suite.results.roofline import HardwarePeak


def render(peak: HardwarePeak) -> Table:
    """A row for each operation; the best rate is the device's peak."""
    frameworks = list(peak.by_framework)
    table = titled(f"Hardware peak of {peak.device}")
    table.caption = "matmul: GFLOP/s; copy: GB/s, read and written"
    table.add_column("operation")
    for name in (*frameworks, "peak"):
        table.add_column(name, justify="right", no_wrap=True)
    for operation, best in peak.best.items():
        rates = [peak.by_framework[name].get(operation) for name in frameworks]
        table.add_row(operation, *map(_giga, rates), _giga(best.work_per_s))
    return table


def _giga(work_per_s: float | None) -> str:
    return UNKNOWN if work_per_s is None else f"{work_per_s / 1e9:,.1f}"
