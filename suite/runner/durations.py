"""Durations as the user writes and reads them."""

from __future__ import annotations

import math
import re

from suite.errors import UsageError

HINT = "--max-time 1h, 90m, 1h30m or 3600s"


def parse(text: str) -> float:
    """The seconds of `1h`, `90m`, `1h30m` or `3600s`; UsageError for anything else."""
    found = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", text)
    hours, minutes, seconds = (int(each or 0) for each in found.groups()) if found else (0, 0, 0)
    total_s = 3600.0 * hours + 60 * minutes + seconds
    if not total_s:
        raise UsageError(f"--max-time {text!r} is not a duration", hint=HINT)
    return total_s


def shown(seconds: float) -> str:
    """Rounded up to a whole unit: `40 s`, `12 min`, `2 h 5 min`."""
    if seconds <= 59:
        return f"{math.ceil(seconds)} s"
    hours, minutes = divmod(math.ceil(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
