"""Who works on this machine: each orchestrator holds a lock while it lives, however it ends.

What an orchestrator makes (containers, volumes, work folders) carries its owner's id. The id's
file is locked as long as the owner lives; the kernel frees the lock even when it is killed. So
what is labelled with the id of a file that nobody holds is nobody's any more.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from suite.errors import BusyError
from suite.paths import home

IfBusy = Literal["wait", "refuse"]
Life = Literal["alive", "dead", "unknown"]
POLL_S = 0.5
BUSY_HINT = "wait for it, or leave out --if-busy refuse to queue behind it"


def new_id() -> str:
    return uuid.uuid4().hex[:12]


@contextmanager
def owning(owner: str, *, keep: bool = False) -> Iterator[Path]:
    """Be `owner` for the time of the block; yield a folder for its work, which goes with it.

    Where the block fails, or is to `keep` what it made, the owner counts as dead afterwards, and
    `dlsuite clean` removes what there may be. Raise BusyError where another process is that owner.
    """
    place = _place(owner)
    place.parent.mkdir(parents=True, exist_ok=True)
    with _file(owner).open("w", encoding="utf-8") as file:
        if not _try_lock(file.fileno()):
            raise BusyError(
                "this run is under way in another dlsuite", hint="wait until that one has ended"
            )
        shutil.rmtree(place, ignore_errors=True)  # of an owner that was killed
        place.mkdir()
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)
        if not keep:
            _file(owner).unlink(missing_ok=True)


def life(owner: str) -> Life:
    """Whether an owner still lives; unknown where it is of another machine or home."""
    try:
        with _file(owner).open(encoding="utf-8") as file:
            return "dead" if _try_lock(file.fileno()) else "alive"
    except FileNotFoundError:
        return "unknown"


def bury_the_dead() -> int:
    """Remove the work folders and files of the owners that live no more; return how many."""
    dead = [file.stem for file in _folder().glob("*.lock") if life(file.stem) == "dead"]
    for owner in dead:
        shutil.rmtree(_place(owner), ignore_errors=True)
        _file(owner).unlink(missing_ok=True)
    return len(dead)


@contextmanager
def turn(if_busy: IfBusy, say: Callable[[str], None]) -> Iterator[None]:
    """Be the only orchestrator that measures on this machine for the time of the block.

    Two at once would slow each other. Where another measures, wait for it, or raise BusyError.
    """
    descriptor = _open_shared(Path(tempfile.gettempdir()) / "dlsuite-measuring.lock")
    try:
        if not _try_lock(descriptor):
            if if_busy == "refuse":
                raise BusyError(
                    "another dlsuite is measuring on this machine",
                    hint=BUSY_HINT,
                )
            say("another dlsuite is measuring on this machine; waiting for it to end")
            while not _try_lock(descriptor):
                time.sleep(POLL_S)
        yield
    finally:
        os.close(descriptor)


def _open_shared(path: Path) -> int:
    """A file that every user may lock. In a sticky /tmp only its owner may open it to create."""
    try:
        return os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _folder() -> Path:
    return home() / "work"


def _place(owner: str) -> Path:
    return _folder() / owner


def _file(owner: str) -> Path:
    return _folder() / f"{owner}.lock"
