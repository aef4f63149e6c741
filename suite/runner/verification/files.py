"""Compares the files of a run with SHA256SUMS, and with those that dlsuite writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from suite.errors import ResultsError
from suite.paths import sha256
from suite.results import checksums
from suite.results.contents import of_run
from suite.runner.verification.findings import Note, Outcome, finding


def must_be_regular(folder: Path) -> None:
    """Raise ResultsError for a pipe, a socket or a device, which could never be read to its end."""
    for path in folder.rglob("*"):
        if path.exists() and not (path.is_file() or path.is_dir()):
            name = path.relative_to(folder).as_posix()
            raise ResultsError(f"{folder}: {name} is no regular file", hint="ask for the run again")


def check(folder: Path) -> Iterator[Outcome]:
    """Files that are missing, that changed, that are links, or that dlsuite does not write."""
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            yield finding(path.relative_to(folder).as_posix(), "file", "a regular one", "a link")
        elif path.name.startswith("."):
            yield Note(where=path.relative_to(folder).as_posix(), text="hidden: it is not checked")
    try:
        expected = checksums.read(folder)
    except ResultsError as error:
        yield finding(checksums.NAME, "form", "digests and paths", error)
        return
    if expected is None:
        yield finding(checksums.NAME, "file", "the digests of a finished run", "none")
        expected = {}
    found = set(checksums.files(folder))
    for name, digest in expected.items():
        if name not in found:
            yield finding(name, "file", "as in SHA256SUMS", "none")
        elif (actual := sha256(folder / name)) != digest:
            yield finding(name, "SHA-256", digest, actual)
        elif not of_run(name):
            yield finding(name, "file", "none in SHA256SUMS, dlsuite does not write it", "a file")
    for name in sorted(found - expected.keys()):
        if not of_run(name):
            yield Note(where=name, text="dlsuite does not write it: nothing confirms what it says")
        elif expected:
            yield finding(name, "file", "none in SHA256SUMS", "a file")
