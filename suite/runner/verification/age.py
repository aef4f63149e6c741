"""What a run must have, by the version of its records and of the worker in its folder.

A worker that keeps predictions came with starts/, inputs/ and records of schema version 12. Only of
an older run their absence is no finding, so removing a part hides nothing.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from suite.results import store
from suite.runner import sources
from suite.runner.verification.findings import Note, Outcome, finding
from suite.worker.loop import PREDICTIONS

SCHEMA_VERSION = 12  # of the first records of such a worker


@cache
def is_recent(folder: Path) -> bool:
    """Whether the run's worker keeps predictions, or a record has the schema of such a worker."""
    versions = (store.version_of(_content(path)) for path in store.record_files(folder))
    if any(version is not None and version >= SCHEMA_VERSION for version in versions):
        return True
    return PREDICTIONS.encode() in _content(folder / sources.WORKER_FOLDER / "loop.py")


def is_compiled(folder: Path, framework: str) -> bool:
    """Whether the framework's worker is a compiled program, which keeps no predictions."""
    place = folder / sources.WORKER_FOLDER / "frameworks" / framework
    return (place / "native.py").is_file()


def missing(folder: Path, where: str, what: str) -> Outcome:
    """A part that is not in the run: a finding, or a note where its version did not write it."""
    if is_recent(folder):
        return finding(where, "file", what, "none")
    return Note(where=where, text="not in the run: an older version wrote it")


def _content(path: Path) -> bytes:
    """The content of a file; empty where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return b""
