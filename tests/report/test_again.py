"""Rows that are measured again, here or on another machine."""

from __future__ import annotations

from suite.report.again import compare
from suite.report.summary import TrialSummary, summarise
from suite.results.record import Parity
from tests.results.test_record import record

RATES = (100.0, 101.0, 99.0, 100.5)


def rows(jax: float, *, machine: float = 1.0, proven: bool = True) -> list[TrialSummary]:
    """Two rows; JAX is `jax` times as fast as PyTorch."""
    return summarise(
        record(
            framework=name,
            trial_id=name,
            repeat=repeat,
            samples_per_s=rate * machine * (jax if name == "jax" else 1),
            **({} if proven else {"parity": Parity(proven=False, reason="loss is off")}),
        )
        for name in ("pytorch", "jax")
        for repeat, rate in enumerate(RATES)
    )


def test_equal_ratios_agree_on_a_faster_machine() -> None:
    first, other = compare(rows(0.5), rows(0.5, machine=3))
    assert first.proof == other.proof == other.figure == "agrees" and first.change is None


def test_another_ratio_differs() -> None:
    _, other = compare(rows(0.5), rows(0.9))
    assert other.figure == "differs" and other.proof == "agrees"


def test_a_ratio_at_the_bound_cannot_be_judged() -> None:
    _, other = compare(rows(0.5), rows(0.625))
    assert other.figure == "inconclusive"


def test_a_proof_that_fails_here_differs() -> None:
    assert {each.proof for each in compare(rows(0.5), rows(0.5, proven=False))} == {"differs"}


def test_on_an_equal_machine_rates_are_compared() -> None:
    found = compare(rows(0.5), rows(0.5, machine=1.5), rates=True)
    assert [each.figure for each in found] == ["differs", "differs"]
    same = compare(rows(0.5), rows(0.5, machine=1.02), rates=True)
    assert [each.figure for each in same] == ["agrees", "agrees"]


def test_the_bound_is_that_of_the_user() -> None:
    changed = rows(0.5, machine=1.06)
    for bound, figure in ((0.2, "agrees"), (0.02, "differs"), (0.055, "inconclusive")):
        first, _ = compare(rows(0.5), changed, rates=True, bound=bound)
        assert first.figure == figure
