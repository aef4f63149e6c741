"""What else computes on this machine: processes that are no part of this dlsuite.

Their CPU time is read from /proc, so containers of other engines are seen too, by their processes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from suite.results.record import Neighbour

PROC = Path("/proc")
BUSY_CORES = 0.1  # a process that uses less is not named
LEAST_S = 1.0  # the kernel counts in ticks of 10 ms, so a shorter time shows little
WORKER = b"suite.worker"  # in the command of a worker and of its sampler
PROGRAM = b"dlsuite-native"  # in that of a worker in C++


@dataclass(frozen=True)
class _Process:
    name: str
    parent: int
    cpu_s: float


class Load:
    """Other busy processes since the last look."""

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc
        self._looked_s = time.monotonic()
        self._before = self._processes()

    def look(self) -> tuple[Neighbour, ...]:
        """The processes that used at least BUSY_CORES since the last look, the busiest first."""
        now_s, found = time.monotonic(), self._processes()
        elapsed_s = now_s - self._looked_s
        used = {
            pid: (process.cpu_s - self._before[pid].cpu_s) / elapsed_s
            for pid, process in found.items()
            if pid in self._before and self._before[pid].name == process.name and elapsed_s > 0
        }
        self._looked_s, self._before = now_s, found
        busy = [pid for pid, cores in used.items() if cores >= BUSY_CORES]
        others = [pid for pid in busy if not self._is_ours(pid, found)]
        return tuple(
            Neighbour(pid=pid, name=found[pid].name, cores=round(used[pid], 2))
            for pid in sorted(others, key=lambda each: -used[each])
        )

    def wait_and_look(self) -> tuple[Neighbour, ...]:
        """The same over at least LEAST_S."""
        time.sleep(max(0.0, self._looked_s + LEAST_S - time.monotonic()))
        return self.look()

    def _is_ours(self, pid: int, found: dict[int, _Process]) -> bool:
        """Whether it is this process, a child of it, or a worker in a container."""
        own, each = os.getpid(), pid
        while each in found:
            if each == own:
                return True
            each = found[each].parent
        try:
            command = (self._proc / str(pid) / "cmdline").read_bytes()
        except OSError:
            return False
        return WORKER in command or PROGRAM in command

    def _processes(self) -> dict[int, _Process]:
        """All processes that can be read, by number."""
        found = {}
        for folder in self._proc.glob("[0-9]*"):
            try:
                text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:  # it has ended
                continue
            # The name is in parentheses, and may have some itself.
            name, _, rest = text.partition("(")[2].rpartition(")")
            fields = rest.split()
            cpu_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            found[int(folder.name)] = _Process(name, int(fields[1]), cpu_s)
        return found


def named(neighbours: Iterable[Neighbour]) -> str:
    """The processes in a sentence."""
    return ", ".join(f"{each.name} ({each.pid}, {each.cores:g} cores)" for each in neighbours)
