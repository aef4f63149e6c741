"""What pip prints while it installs: the few words of it that a user wants to see."""

from __future__ import annotations

import re

from suite.engines.base import Say

COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # Docker's builder paints what a step says on stderr


class PipOutput:
    """Hears pip line by line; says what it is at, and keeps its last error."""

    def __init__(self, title: str, say: Say) -> None:
        self._title = title
        self._say = say
        self.error: str | None = None

    def line(self, line: str) -> None:
        line = COLOUR.sub("", line)
        verb, _, rest = line.strip().partition(" ")
        if verb in ("Collecting", "Downloading") and rest:
            self._say(f"{self._title}: {verb.lower()} {rest.split()[0].rsplit('/', 1)[-1]}")
        elif line.startswith("Installing collected packages"):
            self._say(f"{self._title}: installing {rest.count(',') + 1} packages")
        elif line.startswith("ERROR:"):
            self.error = line.removeprefix("ERROR:").strip()
