"""Figures of a run: one function for each kind, which returns Vega-Lite specifications.

A new kind of figure is one function from RunData to figures, and its line in `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from suite.report.figures.curves import curves
from suite.report.figures.figure import Figure
from suite.report.figures.ladder import ladder
from suite.report.figures.latency import latency
from suite.report.figures.parity import parity
from suite.report.figures.rates import rates
from suite.report.figures.ratios import ratios
from suite.report.figures.runs import blocks, telemetry
from suite.report.figures.speed_up import speed_up
from suite.report.figures.throughput import batch_sizes, throughput

if TYPE_CHECKING:
    from suite.report.run_data import RunData

KINDS: dict[str, Callable[[RunData], Iterator[Figure]]] = {
    "rates": rates,
    "latency": latency,
    "throughput": throughput,
    "batch-sizes": batch_sizes,
    "ladder": ladder,
    "curves": curves,
    "blocks": blocks,
    "telemetry": telemetry,
    "ratios": ratios,
    "speed-up": speed_up,
    "parity": parity,
}


def all_of(run: RunData) -> list[Figure]:
    """Every figure of a run."""
    return [figure for make in KINDS.values() for figure in make(run)]
