"""What a gate decides about the speed of a row."""

from __future__ import annotations

import pytest

from suite.report.comparison import Comparison, compare
from suite.report.gate import Gate
from suite.report.summary import summarise
from tests.report.made_inference import inferred
from tests.report.test_comparison import STEADY, slowed, trials

SLOWER, WITHIN = Gate(limit=0.03, both_sides=False), Gate(limit=0.1, both_sides=True)
NOISY = (100.0, 300.0, 40.0, 160.0)  # the estimate says little


def pair(b: tuple[float, ...], a: tuple[float, ...] = STEADY) -> Comparison:
    (found,) = compare(trials(a), trials(b, run_id="s")).pairs
    return found


def test_equal_rows_are_within_a_limit_and_a_slower_one_is_not() -> None:
    assert SLOWER.decide(pair(STEADY)) == WITHIN.decide(pair(STEADY)) == "within"
    assert SLOWER.decide(pair(slowed(0.1))) == "slower"
    assert WITHIN.decide(pair(slowed(0.2))) == "slower"


def test_a_faster_row_passes_only_the_gate_with_one_side() -> None:
    assert SLOWER.decide(pair(STEADY, slowed(0.3))) == "within"
    assert WITHIN.decide(pair(STEADY, slowed(0.3))) == "faster"


def test_a_gate_that_knows_nothing_does_not_pass_and_names_the_runs_that_it_takes() -> None:
    noisy = pair(tuple(rate * 0.7 for rate in NOISY))
    assert noisy.difference is not None and noisy.difference.verdict == "no difference shown"
    assert SLOWER.decide(noisy) == WITHIN.decide(noisy) == "inconclusive"
    assert "runs of each would decide" in SLOWER.in_words(noisy)


def test_too_few_runs_decide_nothing() -> None:
    few = pair((100.0,), (100.0,))
    assert SLOWER.decide(few) == "inconclusive" and SLOWER.in_words(few).endswith("too few runs")


def test_latencies_are_judged_by_their_inverse() -> None:
    early, late = (
        summarise(inferred(repeat=n, p50_s=p50_s * (1 + n / 100)) for n in range(4))
        for p50_s in (0.010, 0.012)
    )
    (found,) = compare(early, late).pairs
    assert found.interval and found.interval.ratio == pytest.approx(1 / 1.2, rel=0.01)
    assert SLOWER.decide(found) == "slower"
