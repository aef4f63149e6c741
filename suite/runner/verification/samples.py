"""The samples of the telemetry: that they are there, and that they agree with the blocks."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from suite.protocol import events
from suite.protocol.events import Event
from suite.results.logs import Sample
from suite.results.record import Record
from suite.runner import telemetry
from suite.runner.verification.findings import Outcome, finding

EARLY = 0.97  # a sampler waits at least its interval; the rest is the resolution of clocks
LEAST_RSS = 0.98  # the kernel counts pages of each thread with a delay
# Of the blocks' count of other processes; the two are read at other times, and the sampler is one.
LEAST_OTHERS, OTHERS_SLACK = 0.7, 0.25
BUSY_SLACK = 0.1  # cores: the two counters have a resolution of 10 ms


def check(
    where: str, record: Record, reported: list[Event], samples: list[Sample]
) -> Iterator[Outcome]:
    """What contradicts itself in the telemetry of a run of status ok."""
    interval_s = record.measure.sample_s
    timed = telemetry.windows(reported)
    if not interval_s or record.interleaved > 1 or not timed:
        return
    if len(samples) < 2 or record.telemetry is None:
        yield finding(where, "telemetry", f"a sample each {interval_s:g} s", "none")
        return
    times = [each["monotonic_ns"] for each in samples]
    if times[0] > timed[0][0] or times[-1] < timed[-1][1]:
        yield finding(where, "time of the telemetry", "around all timed blocks", "another one")
    steps_s = [(after - before) / 1e9 for before, after in pairwise(times[:-1])]
    if steps_s and (median_s := statistics.median(steps_s)) < EARLY * interval_s:
        expected = f"at least {interval_s:g} s"
        yield finding(where, "interval of the telemetry", expected, f"{median_s:.3g} s")
    yield from _cores(where, samples, times)
    yield from _memory(where, reported, samples)
    yield from _others(where, record, reported)
    uuids = {gpu.get("uuid") for gpu in record.environment.get("gpus") or []}
    used = record.telemetry.gpu.uuid if record.telemetry.gpu else None
    if used and None not in uuids and uuids and used not in uuids:
        yield finding(where, "telemetry.gpu.uuid", f"one of {sorted(map(str, uuids))}", used)


def _cores(where: str, samples: list[Sample], times: list[int]) -> Iterator[Outcome]:
    """A worker cannot use more processor time than its machine is busy."""
    worker = _increase(samples, "cpu_s")
    busy = _increase(samples, "busy_s")
    seconds = (times[-1] - times[0]) / 1e9
    if worker is not None and busy is not None and worker > busy * 1.05 + BUSY_SLACK * seconds:
        expected = f"at most the machine's {busy:.2f} s"
        yield finding(where, "processor time of the worker", expected, f"{worker:.2f} s")


def _others(where: str, record: Record, reported: list[Event]) -> Iterator[Outcome]:
    """The other processes that the blocks counted on their CPUs are among those of the machine."""
    blocks = [each for each in events.of(reported, "block") if each.get("disturbance")]
    sampled = record.telemetry.other_cores if record.telemetry else None
    counted = [each["disturbance"]["others_s"] for each in blocks]
    whole = len(record.counted_blocks) == len(blocks)  # telemetry is that of the counted blocks
    if sampled is None or not counted or None in counted or not whole:
        return
    seconds = sum(each["duration_s"] for each in blocks)
    least = LEAST_OTHERS * sum(counted) / seconds - OTHERS_SLACK
    if sampled < least:
        yield finding(where, "telemetry.other_cores", f"at least {least:.2f}", f"{sampled:.2f}")


def _memory(where: str, reported: list[Event], samples: list[Sample]) -> Iterator[Outcome]:
    """The peak of the worker's memory is not below one of its samples."""
    memory = events.one(reported, "memory")
    peak = memory.get("host_rss_peak_bytes")
    if peak is None:
        return
    before = [each for each in samples if each["monotonic_ns"] <= memory["monotonic_ns"]]
    sampled = [each["own_rss_bytes"] for each in before if each.get("own_rss_bytes")]
    if sampled and peak < LEAST_RSS * max(sampled):
        expected = f"at least the sampled {max(sampled):,}"
        yield finding(where, "memory.host_rss_peak_bytes", expected, f"{peak:,}")


def _increase(samples: list[Sample], name: str) -> float | None:
    """The increase of a counter from the first known sample to the last one."""
    known: list[Any] = [each[name] for each in samples if each.get(name) is not None]
    return known[-1] - known[0] if len(known) == len(samples) and known else None
