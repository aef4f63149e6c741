"""What a device can do at most, framework by framework."""

from __future__ import annotations

from rich import box
from rich.table import Table

from suite.limit import Limit
from suite.report.table import UNKNOWN


def render(limit: Limit) -> Table:
    """A row for each operation; the best of each is the device's limit."""
    frameworks = list(limit.by_framework)
    table = Table(
        title=f"The most in a second on {limit.device}",
        caption="matmul: GFLOP/s; copy: GB/s, read and written; best: what rows are compared with",
        box=box.SIMPLE_HEAD,
        title_justify="left",
        title_style="bold",
        caption_justify="left",
        padding=(0, 1, 0, 0),
    )
    table.add_column("operation")
    for name in (*frameworks, "best"):
        table.add_column(name, justify="right", no_wrap=True)
    for operation, best in limit.best.items():
        told = [limit.by_framework[name].get(operation) for name in frameworks]
        table.add_row(operation, *map(_giga, told), _giga(best.work_per_s))
    return table


def _giga(work_per_s: float | None) -> str:
    return UNKNOWN if work_per_s is None else f"{work_per_s / 1e9:,.1f}"
