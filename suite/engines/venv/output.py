"""Reads what a process prints while it runs, and ends with it."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Iterator

CLOSE_S = 2.0  # for the output that is left when a process has ended
CHUNK = 1 << 16


def lines_of(process: subprocess.Popen[bytes]) -> Iterator[str]:
    """The lines of its standard output, each at once, until it is closed or the process has ended.

    A process that it has started may live on and hold the output open. Bytes that are not UTF-8 are
    replaced, whatever the locale is.
    """
    assert process.stdout is not None
    output, end_s = process.stdout.fileno(), float("inf")
    rest = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        while time.monotonic() < end_s:
            if selector.select(CLOSE_S / 10):
                chunk = os.read(output, CHUNK)
                if not chunk:
                    break
                rest += chunk
                if b"\n" in chunk:
                    *lines, rest = rest.split(b"\n")
                    yield from (_text(line) + "\n" for line in lines)
            if end_s == float("inf") and process.poll() is not None:
                end_s = time.monotonic() + CLOSE_S
    if rest:
        yield _text(rest)


def _text(line: bytes | bytearray) -> str:
    return line.decode("utf-8", errors="replace")
