"""Workers that measure at the same time take turns: one computes, the others wait.

Files in one folder are locked, which the kernel unlocks for whoever dies (flock, which needs
no writing, so a read-only mount will do). Whoever has the turn gives it up only to somebody who
waits at the head of the queue, and queues again behind all others.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import TracebackType

from .protocol import Trial


def of(trial: Trial) -> AbstractContextManager[object]:
    """What a trial holds while it computes: its turn, or nothing where it is alone."""
    folder = trial.paths.get("turns")
    return Turns(Path(folder)) if folder else nullcontext()


@contextmanager
def together(trial: Trial) -> Iterator[None]:
    """Leave when everyone who takes turns leaves, or has died; a failure waits for nobody.

    Else the end of one process would keep the machine busy while others measure.
    """
    folder = trial.paths.get("turns")
    if folder is None:
        yield
        return
    with (Path(folder) / "measuring").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield
        fcntl.flock(file, fcntl.LOCK_EX)  # gives the shared one up first


class Turns:
    """`with turns:` waits for its turn and keeps it as long as the block lasts."""

    def __init__(self, folder: Path) -> None:
        self._queue = (folder / "queue").open("rb")
        self._turn = (folder / "turn").open("rb")

    def __enter__(self) -> None:
        # Who waits for the turn holds the queue, so nobody who comes later can be first.
        fcntl.flock(self._queue, fcntl.LOCK_EX)
        fcntl.flock(self._turn, fcntl.LOCK_EX)
        fcntl.flock(self._queue, fcntl.LOCK_UN)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        fcntl.flock(self._turn, fcntl.LOCK_UN)
