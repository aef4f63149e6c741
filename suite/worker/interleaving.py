"""Interleaving of workers that run at the same time: one computes, the others wait.

The workers lock files in one folder (flock). The kernel releases the locks of a process that dies,
and flock needs no write access, so a read-only mount is sufficient. A worker passes its turn to the
head of the queue, and queues again behind all others.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import TracebackType

from .protocol import Trial


def of(trial: Trial) -> AbstractContextManager[object]:
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
    with (Path(folder) / "measuring").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield
        fcntl.flock(file, fcntl.LOCK_EX)  # releases the shared lock first


class Turns:
    """`with turns:` waits for the turn and holds it during the block."""

    def __init__(self, folder: Path) -> None:
        self._queue = (folder / "queue").open("rb")
        self._turn = (folder / "turn").open("rb")

    def __enter__(self) -> None:
        # The worker that waits for the turn holds the queue, so none that comes later overtakes it.
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
