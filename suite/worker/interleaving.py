"""Interleaving of workers that run at the same time: one computes, the others wait.

The workers lock files in one folder (flock). The kernel releases the locks of a process that dies.
A worker passes its turn to the
head of the queue, and queues again behind all others.
"""

from __future__ import annotations

import fcntl
import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from .protocol import Trial

# A turn begins with untimed steps of this duration: the caches hold the data of the other workers,
# and their OpenMP threads spin on the cores for some milliseconds.
LEAD_IN_S = 0.015
# The length of an interleaved block is drawn between these multiples. With equal lengths, a
# periodic disturbance (a hypervisor's scheduler has periods of 100 ms) could always hit the same
# worker.
JITTER = (0.5, 1.5)


def of(trial: Trial) -> AbstractContextManager[Turns | None]:
    """The context in which a trial computes: its turn, or no restriction where it runs alone."""
    folder = trial.paths.get("interleaving")
    return Turns(Path(folder)) if folder else nullcontext()


@contextmanager
def together(trial: Trial) -> Iterator[None]:
    """Leave the block when all interleaved workers leave it or have died; a failure does not wait.

    Otherwise the exit of one process would disturb the measurements of the others.
    """
    folder = trial.paths.get("interleaving")
    if folder is None:
        yield
        return
    with _opened(Path(folder) / "measuring") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield
        fcntl.flock(file, fcntl.LOCK_EX)  # releases the shared lock first


def _opened(path: Path) -> BinaryIO:
    """A file to lock: for writing, as NFS wants it, where that is allowed."""
    try:
        return path.open("r+b")
    except OSError:
        return path.open("rb")


class Turns:
    """`with turns:` waits for the turn and holds it during the block."""

    def __init__(self, folder: Path) -> None:
        self._queue = _opened(folder / "queue")
        self._turn = _opened(folder / "turn")

    def __enter__(self) -> Turns:
        # The worker that waits for the turn holds the queue, so none that comes later overtakes it.
        fcntl.flock(self._queue, fcntl.LOCK_EX)
        fcntl.flock(self._turn, fcntl.LOCK_EX)
        fcntl.flock(self._queue, fcntl.LOCK_UN)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._release()

    def pass_on(self) -> None:
        """End the turn, and wait for the next one."""
        self._release()
        self.__enter__()

    def _release(self) -> None:
        fcntl.flock(self._turn, fcntl.LOCK_UN)


class Blocks:
    """The blocks of a worker in turns; to be called after each query, it ends a block in time."""

    def __init__(
        self, turns: Turns, block_s: float, lead_in_s: float, lead_in: Callable[[], object]
    ) -> None:
        """`lead_in` is called, untimed, for `lead_in_s` at the beginning of each later turn."""
        self._turns, self._block_s = turns, block_s
        self._lead_in_s, self._lead_in = lead_in_s, lead_in
        self._random = random.Random()
        self._start()

    def __call__(self) -> None:
        """Where the block is over, pass the turn on, and wait for the next one."""
        if time.perf_counter() < self._end_s:
            return
        self._turns.pass_on()
        started_s = time.perf_counter()
        while time.perf_counter() < started_s + self._lead_in_s:
            self._lead_in()
        self._start()

    def _start(self) -> None:
        self._end_s = time.perf_counter() + self._block_s * self._random.uniform(*JITTER)
