"""Where things lie: the checkout, and what is made once and used again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
MANIFESTS = REPOSITORY / "manifests"
LOCKS = REPOSITORY / "docker"
SCHEMAS = REPOSITORY / "docs"
WORKER = REPOSITORY / "suite" / "worker"


def home() -> Path:
    """Environments, datasets and certificates: $DLSUITE_HOME, by default in the user's cache."""
    chosen = os.environ.get("DLSUITE_HOME")
    if chosen:
        return Path(chosen).expanduser().resolve()
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "dlsuite"


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tree_sha256(folder: Path) -> str:
    """One digest of the Python files in `folder`, their names and contents."""
    files = sorted(folder.rglob("*.py"))
    return digest(f"{file.relative_to(folder)} {sha256(file)}" for file in files)


def digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def write_atomically(path: Path, text: str) -> None:
    """Write `text` to `path` so that a reader sees the old file or the whole new one."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
