import pytest

from suite.checks import doubts
from suite.records import Parity
from tests.test_records import record

CALM = {"cpus": [0, 1], "governor": None, "worker": {"device": {"threads": 2}}}


def kinds(rates: tuple[float, ...] = (100.0, 101.0, 102.0), **changes: object) -> list[str]:
    values = {"environment": CALM, "steady": True, **changes}
    runs = [
        record(repeat=repeat, samples_per_s=rate, **values) for repeat, rate in enumerate(rates)
    ]
    return [f"{doubt.kind}: {doubt.detail}" for doubt in doubts(runs) if doubt.hint]


def test_three_calm_runs_that_were_proven_raise_none() -> None:
    assert kinds() == []


@pytest.mark.parametrize(
    ("changes", "doubt"),
    [
        (
            {"parity": Parity(proven=False, reason="step 3: loss is off")},
            "not proven to be the same work: step 3: loss is off",
        ),
        ({"rates": (100.0, 101.0)}, "too few runs: 2"),
        ({"steady": False}, "not steady after warm-up: 3 of 3 runs"),
        ({"rates": (100.0, 120.0, 110.0)}, "runs differ much: ±9.1%"),
        (
            {"environment": {**CALM, "worker": {"device": {"threads": 1}}}},
            "other threads than cores: 1 on 2",
        ),
        (
            {"environment": {**CALM, "governor": "powersave"}},
            "the CPU's frequency changes: governor powersave",
        ),
    ],
)
def test_each_doubt_is_told_by_itself(changes: dict[str, object], doubt: str) -> None:
    assert kinds(**changes) == [doubt]  # type: ignore[arg-type]


def test_what_cannot_be_known_raises_none() -> None:
    assert kinds(environment={"cpus": [0, 1]}, steady=None) == []


def test_of_runs_that_failed_there_is_no_figure_to_doubt() -> None:
    assert doubts([record(status="failed", parity=Parity(proven=False))]) == ()
