"""The search of scenario server: the highest rate of queries whose latencies are within a bound."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from .loadgen import Request
from .loop import Emit
from .responder import Responder

STEPS = 7  # of the bisection; the rate is then known to 1 %
STEP_S = 2.0
STEP_QUERIES = 300  # at least: 99 % are within the bound
LESS = 0.95  # the share of the rate that is tried where the found one does not hold


def highest_rate(request: Request, responder: Responder, results: Path, emit: Emit) -> float:
    """The highest rate of queries, by bisection, at which 99 % of them are within the bound.

    A test that fails is repeated once. The found rate is confirmed by a test of the full length;
    where it does not hold, less is tried.
    """
    short = replace(
        request, min_s=STEP_S, min_queries=STEP_QUERIES, max_s=5 * STEP_S, log_share=0.0
    )

    def bisected(low: float, high: float) -> tuple[float, float]:
        for _ in range(STEPS):
            middle = (low + high) / 2
            if holds(replace(short, rate_per_s=middle)):
                low = middle
            else:
                high = middle
        return low, high

    def holds(request: Request) -> bool:
        """Whether the rate holds in one of two tests: a stall of the machine may spoil one."""
        return held(request) or held(request)

    def held(request: Request) -> bool:
        outcome = responder.run(request, results / "loadgen-search")
        p99_s = outcome.percentiles_s["99"]
        within = p99_s <= request.latency_bound_s
        emit("rate", rate_per_s=request.rate_per_s, p99_s=p99_s, holds=within)
        return within

    highest = 1 / request.call_s
    low, high = bisected(0.0, highest)
    if high == highest:  # every rate holds: the warm-up was disturbed, and calls are faster
        low, high = bisected(low, 2 * highest)
    rate = low or high
    while not holds(replace(request, rate_per_s=rate, log_share=0.0)) and rate > high / 2:
        rate *= LESS
    return rate
