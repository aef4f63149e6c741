"""Scenario server: the highest rate of queries whose latencies are within a bound, timed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from .loadgen import Outcome, Request
from .loop import Emit
from .responder import Responder

STEPS = 7  # of the bisection; the rate is then known to 1 %
STEP_S = 2.0
STEP_QUERIES = 300  # at least: 99 % are within the bound
ATTEMPTS = 2  # at each rate: a stall of the machine may spoil one
LESS = 0.95  # the share of the rate that is timed next where one does not hold


def timed(
    request: Request, responder: Responder, results: Path, emit: Emit
) -> tuple[Request, Outcome]:
    """The timed test at the highest rate at which 99 % of the queries are within the bound.

    Bisection by short tests finds the rate. Where the timed test, of the full length, does not hold
    there, a lower rate is timed, down to half of the highest one of the search. The last test is
    returned; it does not hold where none did.
    """
    rate, highest = _bisected(request, responder, results, emit)
    while True:
        for _ in range(ATTEMPTS):
            at_rate = replace(request, rate_per_s=rate)
            outcome = responder.run(at_rate, results / "loadgen")
            if _holds(at_rate, outcome, emit):
                return at_rate, outcome
        if rate <= highest / 2:
            return at_rate, outcome
        rate *= LESS


def _bisected(
    request: Request, responder: Responder, results: Path, emit: Emit
) -> tuple[float, float]:
    """The highest rate that holds in short tests, and a rate above it that was not tried or failed.

    The first is the second one where no rate holds.
    """
    short = replace(
        request, min_s=STEP_S, min_queries=STEP_QUERIES, max_s=5 * STEP_S, log_share=0.0
    )

    def holds(rate: float) -> bool:
        step = replace(short, rate_per_s=rate)
        return any(
            _holds(step, responder.run(step, results / "loadgen-search"), emit)
            for _ in range(ATTEMPTS)
        )

    def bisected(low: float, high: float) -> tuple[float, float]:
        for _ in range(STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if holds(middle) else (low, middle)
        return low, high

    highest = 1 / request.call_s
    low, high = bisected(0.0, highest)
    if high == highest:  # every rate holds: the warm-up was disturbed, and calls are faster
        low, high = bisected(low, 2 * highest)
    return low or high, high


def _holds(request: Request, outcome: Outcome, emit: Emit) -> bool:
    """Whether 99 % of the queries were within the bound; an event reports the test."""
    p99_s = outcome.percentiles_s["99"]
    within = p99_s <= request.latency_bound_s
    emit("rate", rate_per_s=request.rate_per_s, p99_s=p99_s, holds=within)
    return within
