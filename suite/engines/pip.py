"""Reads the output of pip, and probes package indexes."""

from __future__ import annotations

import re
import urllib.request

from suite.messages import Notify

PROBE_TIMEOUT_S = 2.0
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


def answers(url: str) -> bool:
    """Whether `url` can be read, through the user's proxy if there is one.

    An extra index that does not answer would cost pip seconds for each package.
    """
    request = urllib.request.Request(url, method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=PROBE_TIMEOUT_S):
            return True
    except OSError:
        return False
