"""The blocks of a run that follow the worker's rules, and with one change each that break them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from suite.manifests.workloads import Measure
from suite.results.record import Record
from suite.runner.verification import rules

Events = list[dict[str, Any]]
QUIET = {"waited_s": 0.0, "others_s": 0.0, "stolen_s": 0.0}
QUIET |= {"preemptions": 0, "periods": 0, "throttled_periods": 0, "cooled": 0}
BATCH_SIZE = 64


def block(kind: str, step: int, steps: int, duration_s: float) -> dict[str, Any]:
    return {
        "event": kind,
        "monotonic_ns": step * 10**9,
        "step": step,
        "steps": steps,
        "duration_s": duration_s,
        "samples_per_s": steps * BATCH_SIZE / duration_s,
        "disturbed": False,
        "disturbance": dict(QUIET),
    }


def honest(*, untimed: int = 0) -> Events:
    """Seven equal blocks of warm-up, after which it is steady, and six timed ones of 0.1 s."""
    warmup = [block("warmup", 1 + 5 * (number + 1), 5, 0.1) for number in range(7)]
    timed = [block("block", 36 + (5 + untimed) * (number + 1), 5, 0.1) for number in range(6)]
    return [*warmup, {"event": "warm", "blocks": 7, "steady": True}, *timed]


def found(reported: Events, *, interleaved: int = 1) -> list[str]:
    record = SimpleNamespace(
        devices=SimpleNamespace(ranks=1),
        cores=2,
        interleaved=interleaved,
        workload=SimpleNamespace(batch_size=BATCH_SIZE, epochs=0),
        measure=Measure(min_measure_s=0.4, max_measure_s=0.6),
    )
    return [str(each) for each in rules.check("r", cast(Record, record), reported)]


def of(reported: Events, kind: str) -> Events:
    return [each for each in reported if each["event"] == kind]


def slow_block_left_out(reported: Events) -> None:
    of(reported, "block")[2]["disturbed"] = True


def disturbance_hidden(reported: Events) -> None:
    of(reported, "block")[2]["disturbance"]["others_s"] = 0.2


def other_rate(reported: Events) -> None:
    of(reported, "block")[2]["samples_per_s"] *= 1.3


def warmup_removed(reported: Events) -> None:
    reported.remove(of(reported, "warmup")[0])


def steadiness_denied(reported: Events) -> None:
    of(reported, "warm")[0]["steady"] = False


def timed_block_taken_as_warmup(reported: Events) -> None:
    of(reported, "block")[0]["event"] = "warmup"


def slowest_removed(reported: Events) -> None:
    """The last blocks, of another duration, so that the rate is not certain yet."""
    for each in of(reported, "block")[3:]:
        reported.remove(each)


@pytest.mark.parametrize(
    ("forge", "expected"),
    [
        (slow_block_left_out, "disturbed of block 10: expected False, by its counters, found True"),
        (disturbance_hidden, "disturbed of block 10: expected True, by its counters, found False"),
        (other_rate, "samples_per_s of block 10: expected 3200, found 4160"),
        (warmup_removed, "blocks of warm-up: expected more blocks, found 6"),
        (steadiness_denied, "steady: expected True, found False"),
        (timed_block_taken_as_warmup, "blocks of warm-up: expected 7, after which it is steady"),
        (slowest_removed, "duration of all timed blocks: expected at least 0.6 s"),
    ],
)
def test_a_block_that_breaks_a_rule_is_found(
    forge: Callable[[Events], None], expected: str
) -> None:
    reported = honest()
    assert not found(reported)
    forge(reported)
    assert any(expected in line for line in found(reported)), found(reported)


def test_steps_that_were_added_to_an_interleaved_block_are_found() -> None:
    reported = honest(untimed=2)
    assert not found(reported, interleaved=2)
    changed = of(reported, "block")[3]
    changed["steps"] += 1
    changed["samples_per_s"] = changed["steps"] * BATCH_SIZE / changed["duration_s"]
    assert "untimed steps before timed block 4: expected 2, found 1" in str(
        found(reported, interleaved=2)
    )
