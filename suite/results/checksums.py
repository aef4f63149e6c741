"""SHA256SUMS in a run's folder: the digests of its files, in the form that sha256sum checks.

It has the files that dlsuite writes, and no other ones, such as the user's notes.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from suite.errors import ResultsError
from suite.paths import sha256, write_atomically
from suite.results.contents import of_run

NAME = "SHA256SUMS"
SIGNATURE = f"{NAME}.sig"
LINE = re.compile(r"([0-9a-f]{64})  (\S.*)")


def files(folder: Path) -> list[str]:
    """The files of a run as sorted paths relative to its folder.

    SHA256SUMS, its signature, hidden files and links are not among them.
    """
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    names = (path.relative_to(folder) for path in paths)
    return sorted(
        name.as_posix()
        for name in names
        if str(name) not in (NAME, SIGNATURE) and not any(part[0] == "." for part in name.parts)
    )


def write(folder: Path) -> None:
    """Write the digests of all files of a run; raise OSError where that fails."""
    _write(folder, {name: sha256(folder / name) for name in files(folder) if of_run(name)})


def add(folder: Path, name: str) -> None:
    """Write the digest of a file that was made after the others; raise OSError where that fails.

    Nothing is written where the run has no SHA256SUMS, because it is not finished.
    """
    found = read(folder)
    if found is not None and (digest := sha256(folder / name)) != found.get(name):
        _write(folder, {**found, name: digest})


def _write(folder: Path, digests: dict[str, str]) -> None:
    lines = (f"{digests[name]}  {name}\n" for name in sorted(digests))
    write_atomically(folder / NAME, "".join(lines))


def complete(folder: Path) -> None:
    """Write the digests of a finished run that ended before it could write them.

    Nothing is written where the folder is read-only.
    """
    if not (folder / NAME).exists() and os.access(folder, os.W_OK):
        write(folder)


def read(folder: Path) -> dict[str, str] | None:
    """The digest of each file; None where there is no SHA256SUMS.

    Raise ResultsError where a line of it is not a digest and a path.
    """
    try:
        lines = (folder / NAME).read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ResultsError(
            f"{folder / NAME} cannot be read: {error.strerror}", hint="ask for the run again"
        ) from None
    found: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        match = LINE.fullmatch(line)
        if match is None:
            raise ResultsError(
                f"{folder / NAME}: line {number} is not a digest and a path",
                hint="ask for the run again",
            )
        if match[2] in found:
            raise ResultsError(
                f"{folder / NAME}: line {number} names {match[2]} again",
                hint="ask for the run again",
            )
        found[match[2]] = match[1]
    return found
