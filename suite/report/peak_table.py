"""The hardware peak of a device, framework by framework."""

from __future__ import annotations

from suite.report.numbers import UNKNOWN
from suite.report.table import Fitted, of_rows
from suite.results.roofline import HardwarePeak

NOTE = "matmul: GFLOP/s; copy: GB/s, read and written"


def render(peak: HardwarePeak) -> Fitted:
    """A row for each operation; the best rate is the device's peak."""
    rows = [
        {
            "operation": operation,
            **{name: _giga(rates.get(operation)) for name, rates in peak.by_framework.items()},
            "peak": _giga(best.work_per_s),
        }
        for operation, best in peak.best.items()
    ]
    title = f"Hardware peak of {peak.device}"
    return of_rows(title, rows, left=("operation",), caption=NOTE)


def _giga(work_per_s: float | None) -> str:
    return UNKNOWN if work_per_s is None else f"{work_per_s / 1e9:,.1f}"
