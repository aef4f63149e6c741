"""Reads a URL within limits that hold whatever the server does.

The timeout of a socket starts anew with each byte, and looking up a name has none. So a thread
reads, and the caller waits for it no longer than the limits say.
"""

from __future__ import annotations

import http.client
import queue
import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType

CHUNK_BYTES = 1 << 18
CHUNKS = 16  # that are read ahead
MARKUP = re.compile(rb"(\xef\xbb\xbf)?\s*<(!doctype|!--|html|head|body|meta|script|title)\b", re.I)
TITLE = re.compile(rb"<title[^>]*>(.*?)</title>", re.I | re.S)

Progress = Callable[[int, int | None], None]  # bytes that are read, and all, where known


class Unreadable(Exception):
    """A URL cannot be read; the message is the reason, on one line."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How long a server may take. Below the least rate over a window, or after the whole, it ends.

    `wait_s` is for connecting and for each further byte.
    """

    wait_s: float = 10.0
    window_s: float = 30.0
    least_bytes_per_s: float = 20e3
    whole_s: float = 1800.0
    progress_s: float = 10.0  # between messages


class Stream:
    """The body of a URL, an iterator of chunks.

    `deadline_s`, of the monotonic clock, ends it before `limits.whole_s` does.
    Raise Unreadable where a limit is exceeded, or the body is refused, incomplete or broken.
    """

    def __init__(
        self,
        url: str,
        *,
        limits: Limits,
        deadline_s: float | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.url = url  # where redirects led to, once the first chunk is there
        self.length: int | None = None  # as the server says
        self.received = 0
        self._limits = limits
        self._progress = progress
        self._deadline_s = deadline_s or time.monotonic() + limits.whole_s
        self._read: queue.Queue[bytes | Exception] = queue.Queue(CHUNKS)
        self._closed = threading.Event()

    def __enter__(self) -> Stream:
        threading.Thread(target=self._run, name=f"reads {self.url}", daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._closed.set()  # the thread ends with its next byte or timeout

    def __iter__(self) -> Iterator[bytes]:
        window_s = message_s = time.monotonic()
        window = 0  # bytes before this window
        while True:
            now_s = time.monotonic()
            if now_s >= self._deadline_s:
                raise Unreadable(f"not complete at its limit of time, after {self._so_far()}")
            if now_s - window_s >= self._limits.window_s:
                self._must_be_fast(self.received - window, now_s - window_s)
                window_s, window = now_s, self.received
            if self._progress and now_s - message_s >= self._limits.progress_s:
                self._progress(self.received, self.length)
                message_s = now_s
            wakes_s = min(window_s + self._limits.window_s, self._deadline_s)
            if self._progress:
                wakes_s = min(wakes_s, message_s + self._limits.progress_s)
            chunk = self._next(wakes_s - now_s)
            if chunk == b"":
                return
            if chunk:
                self.received += len(chunk)
                yield chunk

    def _next(self, wait_s: float) -> bytes | None:
        """The next chunk; empty at the end, None where there is none within `wait_s`."""
        try:
            read = self._read.get(timeout=max(0.001, wait_s))
        except queue.Empty:
            return None
        if isinstance(read, Exception):
            raise Unreadable(_reason(read) + _by_proxy(self.url)) from None
        if not read and self.length is not None and self.received != self.length:
            raise Unreadable(f"ended after {self._so_far()}")
        return read

    def _must_be_fast(self, received: int, seconds: float) -> None:
        least = self._limits.least_bytes_per_s * seconds
        if received < least:
            raise Unreadable(
                f"too slow: {received:,} bytes in {seconds:.3g} s, {least:,.0f} are the least"
            )

    def _so_far(self) -> str:
        whole = "" if self.length is None else f" of {self.length:,}"
        return f"{self.received:,}{whole} bytes"

    def _run(self) -> None:
        """Read in this thread; whatever happens reaches the caller."""
        try:
            with urllib.request.urlopen(self.url, timeout=self._limits.wait_s) as reply:
                self.url = reply.geturl()
                length = reply.headers.get("Content-Length", "")
                self.length = int(length) if length.isdecimal() else None
                while not self._closed.is_set():
                    chunk = reply.read1(CHUNK_BYTES)
                    self._put(chunk)
                    if not chunk:
                        return
        except Exception as error:
            self._put(error)

    def _put(self, item: bytes | Exception) -> None:
        while not self._closed.is_set():
            try:
                return self._read.put(item, timeout=1)
            except queue.Full:
                continue


def web_page(start: bytes) -> str | None:
    """The title of the web page that begins with `start`, or "untitled"; None: it is no page."""
    if not MARKUP.match(start):
        return None
    found = TITLE.search(start)
    title = " ".join(found[1].decode("utf-8", errors="replace").split()) if found else ""
    return title[:80] or "untitled"


def _by_proxy(url: str) -> str:
    """A clause that names the user's proxy, without its password, where the URL is read by one."""
    parts = urllib.parse.urlsplit(url)
    proxy = urllib.request.getproxies().get(parts.scheme)
    if not proxy or urllib.request.proxy_bypass(parts.hostname or ""):
        return ""
    place = proxy.rpartition("@")[2].rpartition("//")[2].rstrip("/")
    return f" (through the proxy {place})"


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        reason = f"HTTP {error.code} {error.reason}"
    elif isinstance(error, http.client.IncompleteRead):
        reason = "the connection ended in the middle"
    else:
        reason = str(getattr(error, "reason", error)) or type(error).__name__
    return " ".join(reason.split())
