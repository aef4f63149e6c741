"""Ends workers whose dlsuite was killed: they would disturb the next measurement."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from suite.engines import sessions
from suite.messages import Notify

PROCESSES = Path("/proc")


def end(session_id: str, notify: Notify) -> None:
    """End the workers of stale sessions, and those that an earlier process of this session left.

    A worker runs in a folder of its session, which is also in its command.
    """
    ended = 0
    for pid, owner in _workers():
        if owner == session_id or sessions.state(owner) == "stale":
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(os.getpgid(pid), signal.SIGKILL)
                ended += 1
    if ended:
        notify(f"ended {ended} workers of runs that were killed")


def _workers() -> Iterator[tuple[int, str]]:
    """Each process that is a worker, with the id of its session; none where Linux has no /proc."""
    work = os.path.realpath(sessions.work_folder("")) + os.sep
    for process in PROCESSES.glob("[0-9]*"):
        try:
            folder = str((process / "cwd").readlink()).removesuffix(" (deleted)")
            command = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it has ended, or is another user's
            continue
        inner = folder.removeprefix(work)
        if inner != folder and any(each.endswith(os.fsencode(os.sep + inner)) for each in command):
            yield int(process.name), Path(inner).parts[0]
