"""The folders of the repository and of the cache; digests of files; atomic writes."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
REPOSITORY = PACKAGE.parent  # of a checkout; an installed wheel has its data in suite/data
DATA = PACKAGE / "data" if (PACKAGE / "data").is_dir() else REPOSITORY
MANIFESTS = DATA / "manifests"
LOCKS = DATA / "docker"
WORKER = PACKAGE / "worker"


def home() -> Path:
    """The folder of environments, datasets and certificates.

    It is $DLSUITE_HOME, by default `dlsuite` in the user's cache. OSError where that begins with
    the home folder of a user who has none, as in a container that runs as a bare number.
    """
    chosen = os.environ.get("DLSUITE_HOME")
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    place = Path(chosen) if chosen else Path(cache) / "dlsuite"
    try:
        folder = place.expanduser()
    except RuntimeError as error:
        reason = f"{error}; export DLSUITE_HOME=FOLDER"
        raise FileNotFoundError(errno.ENOENT, reason, str(place)) from None
    return folder.resolve() if chosen else folder


def user_home() -> Path:
    """The user's home folder; one that does not exist where the user has none."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/nonexistent")


def share_with_group() -> None:
    """Give the group access to all new files, where DLSUITE_HOME is a folder that a group shares.

    It is one if its group may write to it. Otherwise the files of one user, made with the umask 022
    or 077, would be unusable for the others.
    """
    try:
        mode = home().stat().st_mode
    except OSError:
        return
    if mode & stat.S_IWGRP:
        umask = os.umask(0o077)
        os.umask(umask & ~0o070)


def part_of(target: Path) -> Path:
    """A new empty folder beside `target`, to be filled and renamed to it.

    Its modes are those of the umask, and its group that of a setgid folder around it; a folder of
    `tempfile` is closed to all other users.
    """
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}.part")
    part.mkdir(parents=True)
    return part


def sha256(path: Path) -> str:
    """The SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tree_files(folder: Path) -> list[Path]:
    """All files in `folder` and below, sorted, except Python's caches."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in found if path.parent.name != "__pycache__")


def tree_sha256(folder: Path) -> str:
    """One digest of the names and contents of all files in `folder`, except Python's caches."""
    files = tree_files(folder)
    return digest(f"{file.relative_to(folder)} {sha256(file)}" for file in files)


def digest(lines: Iterable[str]) -> str:
    """The SHA-256 of the lines, joined by newlines."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def write_atomically(path: Path, text: str) -> None:
    """Write `text` to `path`; a reader sees either the old file or the complete new one."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file of this process and thread that becomes `path` at the end, unless the block fails."""
    part = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        yield part
        part.replace(path)
    except OSError as error:
        if error.filename == str(part):
            error.filename = str(path)  # the name that the user knows
        raise
    finally:
        part.unlink(missing_ok=True)
