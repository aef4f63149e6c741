"""Reads the output of pip, and probes package indexes."""

from __future__ import annotations

import re
import urllib.parse

from suite.messages import Notify
from suite.web import Limits, Stream, Unreadable, web_page

PROBE_LIMITS = Limits(wait_s=2, window_s=4, whole_s=4)
PROBE_BYTES = 1 << 16  # an index can have megabytes
INDEX = re.compile(rb"<meta[^>]*pypi:repository-version", re.I)
LINK = re.compile(rb"<a\s[^>]*href", re.I)
FORM = re.compile(rb"<form\b|type=[\"']?password|http-equiv=[\"']?refresh", re.I)
ANSI_COLOR = re.compile(r"\x1b\[[0-9;]*m")  # Docker's builder colors standard error


class PipOutput:
    """Reads pip's output line by line, reports progress, and keeps the last error."""

    def __init__(self, title: str, notify: Notify) -> None:
        self._title = title
        self._notify = notify
        self.error: str | None = None

    def line(self, line: str) -> None:
        """Read one line."""
        line = ANSI_COLOR.sub("", line)
        verb, _, rest = line.strip().partition(" ")
        if verb in ("Collecting", "Downloading") and rest:
            self._notify(f"{self._title}: {verb.lower()} {rest.split()[0].rsplit('/', 1)[-1]}")
        elif line.startswith("Installing collected packages"):
            self._notify(f"{self._title}: installing {rest.count(',') + 1} packages")
        elif line.startswith("ERROR:"):
            self.error = line.removeprefix("ERROR:").strip()


def answers(url: str, limits: Limits = PROBE_LIMITS) -> bool:
    """Whether `url` is a package index, read through the user's proxy if there is one.

    An extra index that does not answer would cost pip seconds for each package. A redirect to
    another host or a form is the login page of a proxy.
    """
    page = b""
    try:
        with Stream(url, limits=limits) as stream:
            for chunk in stream:
                page += chunk
                if len(page) >= PROBE_BYTES:
                    break
            same_host = _host(stream.url) == _host(url)
    except Unreadable:
        return False
    return same_host and _may_be_an_index(page[:PROBE_BYTES])


def _host(url: str) -> str | None:
    return urllib.parse.urlsplit(url).hostname


def _may_be_an_index(page: bytes) -> bool:
    """Whether a page is an index of packages (PEP 503 or 691), or at least no other web page."""
    if web_page(page) is None or INDEX.search(page):
        return True
    return LINK.search(page) is not None and FORM.search(page) is None
