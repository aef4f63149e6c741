"""Whether blocks, steps, counters and times in the events of a run agree with each other."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from itertools import pairwise

from suite.protocol import events
from suite.protocol.events import Event
from suite.results.record import Record
from suite.runner.verification.findings import Outcome, finding
from suite.worker.loop import SYNCHRONIZE_CALLS

# The share of a block that may pass, in the median, until the next one begins: the loss is read and
# the event is written, which takes milliseconds.
PAUSE = 0.15
SHORT_S = 0.02  # a pause up to this is none
TOTAL_SLACK_S = 1.0  # the record's duration is the host's, by its own clock


def check(
    where: str, record: Record, reported: list[Event], train_samples: int | None
) -> Iterator[Outcome]:
    """What contradicts itself in a run of status ok; `train_samples`: None where unknown."""
    if any(after["monotonic_ns"] < before["monotonic_ns"] for before, after in pairwise(reported)):
        yield finding(where, "monotonic_ns of the events", "increasing", "decreasing")
    yield from _total(where, record, reported)
    yield from _preparation(where, reported)
    written, closing = events.one(reported, "closing"), record.parity.closing
    if written and closing and closing.steps not in (0, written["steps"]):
        yield finding(where, "parity.closing.steps", written["steps"], closing.steps)
    blocks = [each for each in reported if each["event"] in ("warmup", "block")]
    if not blocks:
        return
    alone, first = record.interleaved == 1, blocks[0]["step"] - blocks[0]["steps"]
    single = alone and first == 1  # neither untimed steps nor several steps in one call
    if alone and first not in (1, 8):
        yield finding(where, "steps before the first block", "one call: 1 or 8", first)
    yield from _counters(where, blocks, reported, exact=single)
    if single:
        yield from _pauses(where, blocks)
    if train_samples:
        yield from _epochs(where, record, reported, train_samples, exact=single)


def _total(where: str, record: Record, reported: list[Event]) -> Iterator[Outcome]:
    """The worker's time must fit into the run's duration."""
    started = events.one(reported, "started")
    total_s = record.times.total_s
    if started and total_s is not None:
        start_ns = started["monotonic_ns"] - started["import_s"] * 1e9
        worker_s = (reported[-1]["monotonic_ns"] - start_ns) / 1e9
        if worker_s > total_s + TOTAL_SLACK_S:
            expected = f"at least the worker's {worker_s:.2f} s"
            yield finding(where, "times.total_s", expected, f"{total_s:.2f} s")


def _preparation(where: str, reported: list[Event]) -> Iterator[Outcome]:
    """The durations of the model's construction and of the first step fit between their events."""
    parts = (
        ("build_s", events.one(reported, "started"), events.one(reported, "built")),
        ("first_step_s", events.one(reported, "built"), events.one(reported, "compiled")),
    )
    for name, before, after in parts:
        if before and after:
            between_s = (after["monotonic_ns"] - before["monotonic_ns"]) / 1e9
            # Half of the synchronizations take at least their median.
            spent_s = after[name] + SYNCHRONIZE_CALLS / 2 * after.get("synchronize_s", 0.0)
            if spent_s > between_s + SHORT_S:
                yield finding(where, name, f"at most {between_s:.3g} s", f"{spent_s:.3g} s")


def _counters(
    where: str, blocks: list[Event], reported: list[Event], *, exact: bool
) -> Iterator[Outcome]:
    """Steps of the blocks, of the whole training and at the closing proof."""
    for number, (before, after) in enumerate(pairwise(blocks), start=2):
        done = after["step"] - before["step"]
        if exact and done != after["steps"]:
            yield finding(where, f"steps of block {number}", done, after["steps"])
    trained, closing = events.one(reported, "trained"), events.one(reported, "closing")
    if exact and trained and trained["steps"] != blocks[-1]["step"]:
        yield finding(where, "steps of the training", blocks[-1]["step"], trained["steps"])
    if closing and trained and closing["step"] != trained["steps"]:
        yield finding(where, "first step of the closing proof", trained["steps"], closing["step"])
    counted = closing.get("optimizer_steps")
    if closing and counted is not None and counted != closing["step"]:
        yield finding(where, "optimizer_steps of the closing proof", closing["step"], counted)
    warm = events.one(reported, "warm")
    warmup = sum(each["event"] == "warmup" for each in blocks)
    if warm and warm["blocks"] != warmup:
        yield finding(where, "blocks of warm-up", warm["blocks"], warmup)


def _pauses(where: str, blocks: list[Event]) -> Iterator[Outcome]:
    """The time between blocks: where it is long, the durations are not those of the clock."""
    pauses = [
        (after["monotonic_ns"] - before["monotonic_ns"]) / 1e9 - after["duration_s"]
        for before, after in pairwise(blocks)
    ]
    if not pauses:
        return
    pause_s = statistics.median(pauses)
    block_s = statistics.median(each["duration_s"] for each in blocks[1:])
    if pause_s > max(PAUSE * block_s, SHORT_S):
        found = f"{pause_s:.3g} s, blocks of {block_s:.3g} s"
        yield finding(where, "time between blocks", f"at most {PAUSE:.0%} of a block", found)


def _epochs(
    where: str, record: Record, reported: list[Event], train_samples: int, *, exact: bool
) -> Iterator[Outcome]:
    """An epoch ends after the steps that its samples give, and lasts as long as its blocks."""
    samples = min(train_samples, record.workload.epoch_samples or train_samples)
    per_epoch = math.ceil(samples / record.workload.batch_size)
    step, spent_s = 1, events.one(reported, "compiled").get("first_step_s", 0.0)
    for event in reported:
        if event["event"] in ("warmup", "block"):
            step, spent_s = event["step"], spent_s + event["duration_s"]
        elif event["event"] == "epoch":
            expected = event["epoch"] * per_epoch
            if exact and step != expected:
                yield finding(where, f"steps of epoch {event['epoch']}", expected, step)
            if exact and not math.isclose(event["duration_s"], spent_s, rel_tol=1e-6):
                what = f"duration of epoch {event['epoch']}"
                yield finding(where, what, f"{spent_s:.6g} s", f"{event['duration_s']:.6g} s")
            spent_s = 0.0
