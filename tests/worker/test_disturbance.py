"""What disturbs a block: read from this machine, and judged on made values."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from suite.worker import disturbance
from suite.worker.disturbance import Disturbance, Judge, Meter

ONE_CPU = sorted(os.sched_getaffinity(0))[:1]
BLOCK_S = 0.1


def found(**changed: float | None) -> Disturbance:
    quiet = {"waited_s": 0.0, "others_s": 0.0, "stolen_s": 0.0}
    counts = {"preemptions": 0, "periods": 0, "throttled_periods": 0, "cooled": 0}
    return Disturbance(**{**quiet, **counts, **changed})


def judged(*blocks: Disturbance, cpus: int = 2) -> list[bool]:
    judge = Judge(cpus)
    return [judge(each, BLOCK_S) for each in blocks]


def test_quiet_blocks_are_not_disturbed() -> None:
    assert not any(judged(*[found()] * 10))


def test_waiting_beyond_what_is_usual_disturbs() -> None:
    assert judged(*[found()] * 5, found(waited_s=0.01)) == [False] * 5 + [True]


def test_threads_that_always_wait_for_each_other_are_usual() -> None:
    waiting = [found(waited_s=0.03 + 0.0002 * number) for number in range(8)]
    assert not any(judged(*waiting))
    assert judged(*waiting, found(waited_s=0.06))[-1]


def test_the_usual_spread_of_waiting_does_not_disturb() -> None:
    """Shares of a run of JAX on a quiet machine of two cores."""
    shares = (0.11, 0.13, 0.165, 0.12, 0.15, 0.14, 0.19, 0.105, 0.13, 0.2)
    usual = [found(waited_s=share * BLOCK_S) for share in shares]
    assert not any(judged(*usual))
    assert judged(*usual, found(waited_s=0.5 * BLOCK_S))[-1]


def test_a_core_that_others_take_disturbs_also_from_the_first_block_on() -> None:
    assert judged(found(others_s=0.09), found(stolen_s=0.09)) == [True, True]
    assert judged(found(others_s=0.03)) == [False]  # the kernel counts in ticks of 10 ms


def test_heat_disturbs_and_a_quota_does_not() -> None:
    assert judged(found(cooled=1)) == [True]
    assert judged(found(periods=1, throttled_periods=1)) == [False]


def test_what_cannot_be_read_does_not_disturb() -> None:
    unknown = found(waited_s=None, others_s=None, stolen_s=None)
    assert not any(judged(*[unknown] * 6))


def test_a_process_beside_this_one_is_seen() -> None:
    """Another process computes on the one CPU of this one for half a second."""
    meter = Meter(ONE_CPU)
    before_affinity = os.sched_getaffinity(0)
    os.sched_setaffinity(0, ONE_CPU)
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(0.3)  # until it computes
        before, end = meter.read(), time.monotonic() + 0.5
        while time.monotonic() < end:
            pass
        seen = disturbance.between(before, meter.read())
    finally:
        other.kill()
        other.wait()
        os.sched_setaffinity(0, before_affinity)
    assert seen.waited_s is not None and seen.waited_s > 0.1
    assert seen.others_s is not None and seen.others_s > 0.1
    assert seen.preemptions > 0
    assert Judge(1)(seen, 0.5)


def test_own_threads_are_not_others() -> None:
    meter = Meter(sorted(os.sched_getaffinity(0)))
    before = meter.read()
    spinning = threading.Thread(target=sum, args=(range(3_000_000),))
    spinning.start()
    spinning.join()
    assert disturbance.between(before, meter.read()).others_s is not None


def test_child_processes_are_own_ones_where_they_are_a_part_of_the_work() -> None:
    meter = Meter(ONE_CPU, processes=True)
    own_s = meter.read().own_s
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(0.5)
        assert meter.read().own_s - own_s > 0.05
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize("name", ["proc/stat", "proc/self/task"])
def test_a_machine_without_these_files(name: str, tmp_path) -> None:
    counters = Meter([0], root=tmp_path).read()
    assert counters.waited_s is None and counters.busy_s is None
