"""What disturbed a block of steps: other processes, the hypervisor, a CPU quota, heat.

The kernel's counters are read before and after a block, outside the timed part; that takes some
tenths of a millisecond. Whether a block is disturbed never depends on its own rate, so leaving
disturbed blocks out favours no framework. docs/explanation/method.md has the limits.
"""

from __future__ import annotations

import os
import resource
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from . import cgroup

ROOT = Path("/")
# s of waiting for a CPU in a second above what is usual in this run, and how often its spread:
# threads of a framework that wait for each other do so by another share in each block.
WAITED_SHARE = 0.02
WAITED_SPREADS = 4
TAKEN_SHARE = 0.05  # s of others or of the hypervisor in a second of one core
TICKS = 2  # of each CPU, by which the kernel's count of others and of the hypervisor may be wrong
READ_BYTES = 2**16  # more than the longest of these files, proc/stat of hundreds of CPUs
USUAL_BLOCKS = 4  # so many blocks show how long the threads of this worker wait for each other


@dataclass(frozen=True)
class Counters:
    """The kernel's counters at one time; None where they cannot be read."""

    waited_s: float | None  # all threads of the worker: ready to run, without a CPU
    own_s: float  # CPU time of the worker and its children
    busy_s: float | None  # of the worker's CPUs, by all processes
    stolen_s: float | None  # of the worker's CPUs, by the hypervisor
    preemptions: int  # of the worker's threads, by other threads
    periods: int  # of the CPU quota
    throttled_periods: int
    cooled: int  # times that a CPU was slowed down because of its temperature


@dataclass(frozen=True)
class Disturbance:
    """What happened between two readings; None where it cannot be read."""

    waited_s: float | None
    others_s: float | None  # CPU time of other processes on the worker's CPUs
    stolen_s: float | None
    preemptions: int
    periods: int
    throttled_periods: int
    cooled: int


class Meter:
    """Reads the counters of this process and of its CPUs."""

    def __init__(self, cpus: Sequence[int], *, processes: bool = False, root: Path = ROOT) -> None:
        """`processes`: whether the worker has child processes that are a part of its work."""
        self._processes = processes
        self._names = {f"cpu{cpu}" for cpu in cpus}
        self._stat, self._tasks = f"{root}/proc/stat", f"{root}/proc/self/task"
        self._throttling = cgroup.Throttling(root)
        folder = root / "sys/devices/system/cpu"
        counts = (folder / f"cpu{cpu}/thermal_throttle/core_throttle_count" for cpu in cpus)
        self._heat = [path for path in counts if path.exists()]
        self._tick_s = 1 / os.sysconf("SC_CLK_TCK")

    def read(self) -> Counters:
        """The counters now."""
        busy_s, stolen_s = self._processors()
        periods = self._throttling.read()
        return Counters(
            waited_s=self._waited_s(),
            own_s=time.process_time() + sum(map(_cpu_s, self._children())),
            busy_s=busy_s,
            stolen_s=stolen_s,
            preemptions=resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw,
            periods=periods.all,
            throttled_periods=periods.throttled,
            cooled=sum(map(_count, self._heat)),
        )

    def _waited_s(self) -> float | None:
        """How long the present threads have waited for a CPU, as the kernel's scheduler counts."""
        waited_ns = None
        for text in self._of_threads("schedstat"):
            waited_ns = (waited_ns or 0) + int(text.split()[1])
        return None if waited_ns is None else waited_ns / 1e9

    def _processors(self) -> tuple[float | None, float | None]:
        """The busy and the stolen time of the worker's CPUs."""
        busy = stolen = 0
        found = False
        for line in _text(self._stat).splitlines():
            name, *ticks = line.split()
            if name in self._names:
                user, nice, system, _, _, irq, softirq, steal = map(int, ticks[:8])
                busy += user + nice + system + irq + softirq  # the first two include guests
                stolen += steal
                found = True
        return (busy * self._tick_s, stolen * self._tick_s) if found else (None, None)

    def _children(self) -> list[int]:
        """The child processes that still run."""
        if not self._processes:
            return []
        return [int(pid) for text in self._of_threads("children") for pid in text.split()]

    def _of_threads(self, name: str) -> list[str]:
        """The content of a file of each thread; without those that end meanwhile."""
        try:
            threads = [each.name for each in os.scandir(self._tasks)]
        except OSError:
            return []
        texts = (_text(f"{self._tasks}/{thread}/{name}") for thread in threads)
        return [text for text in texts if text]


def between(before: Counters, after: Counters) -> Disturbance:
    """What happened between two readings."""
    return Disturbance(
        waited_s=_difference(before.waited_s, after.waited_s),
        others_s=_difference(
            _difference(before.own_s, before.busy_s), _difference(after.own_s, after.busy_s)
        ),
        stolen_s=_difference(before.stolen_s, after.stolen_s),
        preemptions=after.preemptions - before.preemptions,
        periods=after.periods - before.periods,
        throttled_periods=after.throttled_periods - before.throttled_periods,
        cooled=after.cooled - before.cooled,
    )


class Judge:
    """Decides whether a block is disturbed, by the blocks of this run so far."""

    def __init__(self, cpus: int) -> None:
        """`cpus`: the number of the worker's CPUs."""
        self._allowance_s = TICKS * cpus / os.sysconf("SC_CLK_TCK")
        self._waited: list[float] = []  # the share of each block so far

    def __call__(self, found: Disturbance, duration_s: float) -> bool:
        """Whether a block of this duration is disturbed.

        The threads of a framework also wait for each other. That is part of its work, and is usual:
        the median over the blocks of the run. Its spread is the distance of the median from the
        lower quartile, which disturbances, in up to half of the blocks, hardly change.
        """
        taken_s = max(found.others_s or 0.0, found.stolen_s or 0.0)
        if taken_s > TAKEN_SHARE * duration_s + self._allowance_s or found.cooled > 0:
            return True
        if found.waited_s is None:
            return False
        share = found.waited_s / duration_s
        self._waited.append(share)
        if len(self._waited) < USUAL_BLOCKS:
            return False
        lower, usual, _ = statistics.quantiles(self._waited, n=4)
        return share - usual > WAITED_SHARE + WAITED_SPREADS * (usual - lower)


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def _cpu_s(pid: int) -> float:
    """The CPU time of a process; 0 where it has ended.

    The number of its clock is that of clock_getcpuclockid(3).
    """
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def _count(path: Path) -> int:
    text = _text(path)
    return int(text) if text.isdigit() else 0


def _text(path: str | Path) -> str:
    """The content of a small file; without Python's buffers, which take most of the time."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.read(descriptor, READ_BYTES).decode("ascii", errors="replace").strip()
    except OSError:
        return ""
    finally:
        os.close(descriptor)
