"""Sessions: one for each running dlsuite, which holds a lock while its process lives.

Containers, volumes and work folders carry the id of the session that made them. The session's file
is locked while the process lives, and the kernel releases the lock even when the process is
killed. Containers, volumes and folders that carry the id of an unlocked file are therefore stale
and may be removed.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
import textwrap
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Literal

from suite import locks
from suite.errors import BusyError
from suite.messages import Notify
from suite.paths import home

IfBusy = Literal["wait", "refuse"]
State = Literal["active", "stale", "unknown"]
POLL_S = 0.5
LONGEST_COMMAND = 120  # characters of another dlsuite's command that a message shows
BUSY_HINT = "wait until it ends; without `--if-busy refuse`, dlsuite waits by itself"


def new_id() -> str:
    """A new session id."""
    return uuid.uuid4().hex[:12]


@contextmanager
def session(session_id: str, *, keep: bool = False, hosts: Sequence[str] = ()) -> Iterator[Path]:
    """Hold the session during the block; yield its work folder, which is removed afterwards.

    `hosts` are the addresses of its engines, where it has several.

    If the block fails, or `keep` is set, the session is stale afterwards, and `dlsuite clean`
    removes its leftovers. Raise BusyError if another process holds the same session.
    """
    folder = work_folder(session_id)
    folder.parent.mkdir(parents=True, exist_ok=True)
    path = _file(session_id)
    with os.fdopen(locks.opened(path), "r+", encoding="utf-8") as file:
        if not locks.try_lock(file.fileno(), path):
            raise BusyError(
                "another dlsuite is working on this run", hint="wait until that one has ended"
            )
        file.truncate()
        file.write("\n".join(hosts))
        file.flush()
        shutil.rmtree(folder, ignore_errors=True)  # left by a killed process
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if not keep:
            path.unlink(missing_ok=True)


def state(session_id: str) -> State:
    """Whether a session is active; unknown if it belongs to another machine or cache."""
    try:
        with (path := _file(session_id)).open("r+", encoding="utf-8") as file:
            return "stale" if locks.try_lock(file.fileno(), path) else "active"
    except FileNotFoundError:
        return "unknown"


def remove_stale(cleaned: str | None) -> int:
    """Remove the work folders and files of stale sessions; return their number.

    `cleaned` is the address of the engine without their leftovers. Only the file of a session shows
    that it is stale, so it is removed with the last of its engines. Each session is held meanwhile,
    so that `dlsuite resume` cannot begin to use it.
    """
    removed = 0
    for path in _folder().glob("*.lock"):
        with suppress(FileNotFoundError), path.open("r+", encoding="utf-8") as file:
            if locks.try_lock(file.fileno(), path):
                folder = work_folder(path.stem)
                found = folder.exists()
                shutil.rmtree(folder, ignore_errors=True)
                removed += _forget(path, file, cleaned) or found
    return removed


def _forget(path: Path, file: IO[str], cleaned: str | None) -> bool:
    """Remove the engine from those of a session, and the session's file with the last one.

    Return whether the file is removed.
    """
    hosts = file.read().split()
    left = [each for each in hosts if each != cleaned]
    if cleaned is None or left:
        file.seek(0)
        file.truncate()
        file.write("\n".join(left))
        return False
    path.unlink()
    return True


@contextmanager
def measuring(if_busy: IfBusy, notify: Notify, *, shared: bool = False) -> Iterator[None]:
    """Be the only dlsuite that measures on this machine during the block.

    Two measurements at once would slow each other. If another dlsuite measures, wait until it
    ends, or raise BusyError. Those that are `shared` run beside each other: their rates do not
    matter.
    """
    path = Path(tempfile.gettempdir()) / "dlsuite-measuring.lock"
    descriptor = locks.opened(path)
    try:
        with suppress(PermissionError):  # it is another user's
            os.fchmod(descriptor, 0o644)  # whatever the umask is
        if not locks.try_lock(descriptor, path, shared=shared):
            busy = f"another dlsuite is measuring on this machine{_holder(path)}"
            if if_busy == "refuse":
                raise BusyError(busy, hint=BUSY_HINT)
            notify(f"{busy}; waiting for it to end")
            while not locks.try_lock(descriptor, path, shared=shared):
                time.sleep(POLL_S)
        _describe(descriptor, "" if shared else _command())
        yield
        _describe(descriptor, "")
    finally:
        os.close(descriptor)


def _command() -> str:
    """This process, its command and its folder."""
    now = time.strftime("%H:%M:%S")
    words = textwrap.shorten(
        shlex.join(["dlsuite", *sys.argv[1:]]), LONGEST_COMMAND, placeholder=" ..."
    )
    return f"{os.getpid()}\nsince {now}: {words}, process {os.getpid()}, in {Path.cwd()}"


def _describe(descriptor: int, text: str) -> None:
    """Write into the lock's file who holds it; another user's file may be readable only."""
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode(errors="surrogateescape"), 0)


def _holder(path: Path) -> str:
    """Who holds the lock, as a part of a sentence; empty where that is unknown."""
    try:
        pid, _, words = path.read_text(encoding="utf-8", errors="replace").partition("\n")
    except OSError:
        return ""
    # A process that could not write leaves the words of an earlier one.
    return f" {words}" if words and Path(f"/proc/{pid}").exists() else ""


def _folder() -> Path:
    return home() / "work"


def work_folder(session_id: str) -> Path:
    """The folder of a session's temporary files."""
    return _folder() / session_id


def _file(session_id: str) -> Path:
    return _folder() / f"{session_id}.lock"
