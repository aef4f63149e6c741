"""What a verification finds, and the comparison of recorded values with computed ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

# Sums of the same numbers differ by less between the versions of numpy and kinds of processors.
TOLERANCE = 1e-6
LONGEST = 120  # characters of a value in a message


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A part of a run that does not fit the rest."""

    where: str  # a file in the run's folder
    what: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}: expected {self.expected}, found {self.found}"


@dataclass(frozen=True, kw_only=True)
class Note:
    """A part that is not checked, and why."""

    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.text}"


Outcome = Finding | Note


def finding(where: str, what: str, expected: object, found: object) -> Finding:
    """A finding about two values, each on one line."""
    return Finding(where=where, what=what, expected=_short(expected), found=_short(found))


def compared(where: str, what: str, expected: Any, found: Any) -> Iterator[Finding]:
    """A finding for each value in nested dicts and lists that differs, named by its path.

    Floats are equal within TOLERANCE, relative; None and NaN are equal only to themselves.
    """
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in expected | found:
            inner = f"{what}.{key}" if what else str(key)
            yield from compared(where, inner, expected.get(key), found.get(key))
    elif isinstance(expected, (list, tuple)) and isinstance(found, (list, tuple)):
        if len(expected) != len(found):
            yield finding(where, f"length of {what}", len(expected), len(found))
            return
        for position, pair in enumerate(zip(expected, found, strict=True)):
            yield from compared(where, f"{what}[{position}]", *pair)
    elif not _equal(expected, found):
        yield finding(where, what, expected, found)


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, (int, float)):
        both_nan = math.isnan(one) and math.isnan(other)
        return both_nan or math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=1e-12)
    return bool(one == other)


def _short(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
