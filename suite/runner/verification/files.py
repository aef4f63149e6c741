"""Compares the files of a run with SHA256SUMS."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from suite.errors import ResultsError
from suite.paths import sha256
from suite.results import certificate, checksums, roofline, store
from suite.runner import sources
from suite.runner.verification.findings import Note, Outcome, finding

# Every other file, such as the user's notes, may be added later.
FOLDERS = ("logs", certificate.FOLDER, sources.WORKER_FOLDER, sources.LOCKS_FOLDER)
FILES = (store.PLAN, roofline.NAME, roofline.OLD_NAME, store.LADDER, store.RECORDS)


def check(folder: Path) -> Iterator[Outcome]:
    """Files that are missing, that changed, or that were added after the run."""
    try:
        expected = checksums.read(folder)
    except ResultsError as error:
        yield finding(checksums.NAME, "form", "digests and paths", error)
        return
    if expected is None:
        yield Note(
            where=checksums.NAME,
            text="missing: an older version wrote the run, or it is not finished",
        )
        return
    found = set(checksums.files(folder))
    for name, digest in expected.items():
        if name not in found:
            yield finding(name, "file", "as in SHA256SUMS", "none")
        elif (actual := sha256(folder / name)) != digest:
            yield finding(name, "SHA-256", digest, actual)
    for name in sorted(found - expected.keys()):
        if _of_run(name):
            yield finding(name, "file", "none in SHA256SUMS", "a file")
        else:
            yield Note(where=name, text="not in SHA256SUMS: added after the run")


def _of_run(name: str) -> bool:
    """Whether dlsuite reads a file of this name."""
    first, _, rest = name.partition("/")
    return first in FOLDERS if rest else any(fnmatch(name, pattern) for pattern in FILES)
