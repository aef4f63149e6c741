"""Whether a worker kept its rules: which blocks are disturbed, when warm-up and the run end.

The rules are those of this version's worker (suite/worker/loop.py), so a run with another worker is
not compared. Of several ranks, only the slowest one's durations are known.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from itertools import pairwise

from suite.protocol import events
from suite.protocol.events import Event
from suite.results.record import Record
from suite.runner.verification.findings import Finding, finding
from suite.worker import disturbance
from suite.worker.disturbance import Disturbance
from suite.worker.loop import is_steady

FEWEST_PAIRS = 3  # of blocks whose untimed steps between them are equal
MARGIN_S = 1e-9  # a compiled worker sums durations in another order


def check(where: str, record: Record, reported: Sequence[Event]) -> Iterator[Finding]:
    """What a worker of this version would not have reported, in a training of status ok."""
    blocks = [each for each in reported if each["event"] in ("warmup", "block")]
    warm = events.one([*reported], "warm")
    if not blocks or record.devices.ranks > 1:
        return
    yield from _disturbed(where, record, blocks)
    yield from _rates(where, record, blocks)
    yield from _warm_up(where, record, blocks, warm)
    yield from _ending(where, record, blocks)
    if record.interleaved > 1 and not record.workload.epochs:
        yield from _lead_in(where, events.of([*reported], "block"))


def _disturbed(where: str, record: Record, blocks: Sequence[Event]) -> Iterator[Finding]:
    """The kernel's counters say which blocks are disturbed."""
    judge = disturbance.Judge(record.cores)
    for number, block in enumerate(blocks, start=1):
        if not (found := block.get("disturbance")):
            return  # a worker in another language may not measure it
        fields = {name: found[name] for name in Disturbance.__annotations__}
        expected = judge(Disturbance(**fields), block["duration_s"])
        if expected != block.get("disturbed", False):
            what = f"disturbed of block {number}"
            yield finding(where, what, f"{expected}, by its counters", not expected)
            return


def _rates(where: str, record: Record, blocks: Sequence[Event]) -> Iterator[Finding]:
    for number, block in enumerate(blocks, start=1):
        rate = block["steps"] * record.workload.batch_size / block["duration_s"]
        if not math.isclose(rate, block["samples_per_s"], rel_tol=1e-6):
            found = f"{block['samples_per_s']:.6g}"
            yield finding(where, f"samples_per_s of block {number}", f"{rate:.6g}", found)
            return


def _warm_up(where: str, record: Record, blocks: Sequence[Event], warm: Event) -> Iterator[Finding]:
    """Warm-up ends with the first block after which the series is steady, or with the last one."""
    warmup = [each for each in blocks if each["event"] == "warmup"]
    if len(warmup) == len(blocks):
        return
    most = record.measure.max_warmup_blocks
    rates: list[float] = []
    ended = 0
    for number, block in enumerate(warmup, start=1):
        if not block.get("disturbed"):
            rates.append(block["samples_per_s"])
        if not ended and (is_steady(rates) or number >= most):
            ended = number
    if warm and warm["steady"] != is_steady(rates):
        yield finding(where, "steady", is_steady(rates), warm["steady"])
    if ended != len(warmup):
        expected = f"{ended}, after which it is steady or the longest" if ended else "more blocks"
        yield finding(where, "blocks of warm-up", expected, len(warmup))


def _ending(where: str, record: Record, blocks: Sequence[Event]) -> Iterator[Finding]:
    """A run ends when its rate is certain, or when its time is up."""
    timed = [each for each in blocks if each["event"] == "block"]
    if not timed:
        return
    measure = record.measure
    all_s = sum(each["duration_s"] for each in timed)
    if all_s >= measure.max_measure_s - MARGIN_S:
        return
    quiet = [each for each in timed if not each.get("disturbed")]
    rates = [each["samples_per_s"] for each in quiet]
    long_enough = sum(each["duration_s"] for each in quiet) >= measure.min_measure_s - MARGIN_S
    if record.interleaved == 1 and long_enough and len(rates) > 1:
        error = 2 * statistics.stdev(rates) / math.sqrt(len(rates))
        if error <= measure.relative_error * statistics.fmean(rates) * (1 + 1e-9):
            return
    expected = f"at least {measure.max_measure_s:g} s, or a rate that is certain"
    yield finding(where, "duration of all timed blocks", expected, f"{all_s:.3g} s")


def _lead_in(where: str, blocks: Sequence[Event]) -> Iterator[Finding]:
    """Of an interleaved worker, equally many untimed steps are before each timed block."""
    untimed = [
        after["step"] - before["step"] - after["steps"] for before, after in pairwise(blocks)
    ]
    if len(untimed) < FEWEST_PAIRS or len(set(untimed)) == 1:
        return
    usual = statistics.mode(untimed)
    number = next(place for place, each in enumerate(untimed, start=2) if each != usual)
    what = f"untimed steps before timed block {number}"
    yield finding(where, what, usual, untimed[number - 2])
