"""One class for each kind of failure: what happened, what to do next, and the exit code."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class DlsuiteError(Exception):
    """A failure with a cause the user can act on; `hint` is the next command or step."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(DlsuiteError):
    """A name or an option that cannot be meant."""

    exit_code = 2


class ManifestError(DlsuiteError):
    """A manifest that cannot be read or does not fit its schema."""

    exit_code = 3


class DataError(DlsuiteError):
    """A dataset that cannot be had, or is not what its checksum says."""

    exit_code = 4


class EngineError(DlsuiteError):
    """A framework whose environment or image cannot be made here, or an engine out of reach."""

    exit_code = 5


class ResultsError(DlsuiteError):
    """Results that cannot be written, read or compared."""

    exit_code = 6


class RunsFailed(DlsuiteError):
    """Every run has its record, but some did not end well."""

    exit_code = 7


class ParityFailed(DlsuiteError):
    """A framework did other work than the reference."""

    exit_code = 8


class ConformanceFailed(DlsuiteError):
    """A worker that does not speak the protocol."""

    exit_code = 9


class BusyError(DlsuiteError):
    """Another dlsuite is at work where this one wants to be."""

    exit_code = 10


class Slower(DlsuiteError):
    """A comparison found what it was told not to let pass."""

    exit_code = 11


class Interrupted(DlsuiteError):
    """The user pressed Ctrl-C, or something ended the orchestrator."""

    exit_code = 130


def nearest(name: str, known: Iterable[str]) -> str:
    """A clause that names the closest known name, or all of them where none is close."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"nearest: {close[0]!r}" if close else f"known: {', '.join(known)}"


def unknown(kind: str, name: str, known: Iterable[str]) -> UsageError:
    return UsageError(f"unknown {kind} {name!r}; {nearest(name, known)}", hint="dlsuite list")
