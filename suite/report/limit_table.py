"""What a device can do at most, framework by framework."""

from __future__ import annotations

from rich.table import Table

from suite.limit import Limit
from suite.report.table import UNKNOWN, titled


def render(limit: Limit) -> Table:
    """A row for each operation; the best of each is the device's limit."""
    frameworks = list(limit.by_framework)
    table = titled(f"The most in a second on {limit.device}")
    table.caption = "matmul: GFLOP/s; copy: GB/s, read and written; best: what rows stand beside"
    table.add_column("operation")
    for name in (*frameworks, "best"):
        table.add_column(name, justify="right", no_wrap=True)
    for operation, best in limit.best.items():
        told = [limit.by_framework[name].get(operation) for name in frameworks]
        table.add_row(operation, *map(_giga, told), _giga(best.work_per_s))
    return table


def _giga(work_per_s: float | None) -> str:
    return UNKNOWN if work_per_s is None else f"{work_per_s / 1e9:,.1f}"
