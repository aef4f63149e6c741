"""One class for each kind of failure, with its exit code."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MOST_NAMES = 20  # in a message


class DlsuiteError(Exception):
    """A failure that the user can act on; `hint` is the next command or step."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(DlsuiteError):
    """An unknown name, or an invalid option."""

    exit_code = 2


class ManifestError(DlsuiteError):
    """A manifest that is unreadable or violates its schema."""

    exit_code = 3


class DataError(DlsuiteError):
    """A dataset that is unavailable, or differs from its checksum."""

    exit_code = 4


class EngineError(DlsuiteError):
    """An environment or image that cannot be built, or an engine that does not answer."""

    exit_code = 5


class ResultsError(DlsuiteError):
    """Results that cannot be written, read or compared."""

    exit_code = 6


class RunsFailed(DlsuiteError):
    """Every run has its record, but some runs failed."""

    exit_code = 7


class ParityFailed(DlsuiteError):
    """A framework's results differ from the reference."""

    exit_code = 8


class ConformanceFailed(DlsuiteError):
    """A worker violates the protocol."""

    exit_code = 9


class BusyError(DlsuiteError):
    """Another dlsuite process holds the resource that this one needs."""

    exit_code = 10


class Slower(DlsuiteError):
    """A comparison found a larger slowdown than the user allows."""

    exit_code = 11


class NotVerified(DlsuiteError):
    """A run that does not fit its own checksums, plan, proofs or events."""

    exit_code = 12


class MachineLeft(DlsuiteError):
    """A rented machine that is not verified to be gone: it may cost money."""

    exit_code = 13


class Inconclusive(DlsuiteError):
    """A comparison shows neither a difference beyond the limit nor that it is within it."""

    exit_code = 14


class Faster(DlsuiteError):
    """A comparison that has to be within a limit found a larger gain."""

    exit_code = 15


class Interrupted(DlsuiteError):
    """The user pressed Ctrl-C, or the orchestrator received a signal to stop."""

    exit_code = 130


def nearest(name: str, known: Iterable[str]) -> str:
    """A clause that names the closest known name; where none is close, all or five of them."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if close:
        return f"nearest: {close[0]!r}"
    if len(known) > MOST_NAMES:
        some = difflib.get_close_matches(name, known, n=5, cutoff=0.0)
        return f"nearest of {len(known)}: {', '.join(some)}"
    return f"known: {', '.join(known)}"


def unknown(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """The error for an unknown name, with the nearest known one."""
    return UsageError(f"unknown {kind} {name!r}; {nearest(name, known)}", hint="dlsuite list")
