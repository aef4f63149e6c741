"""Finds a dataset's raw files in a user's folder, by the names that other libraries give them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from suite.datasets.names import content, is_helper, listed

LEVELS = 4  # below the user's folder
MOST = 50_000  # files that are looked at
ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")
FITS = {
    "idx": "the IDX files, plain or .gz (torchvision's MNIST/raw), Keras's mnist.npz, or an archive"
    " with mnist in its name",
    "cifar": "cifar-10-batches-bin, cifar-10-batches-py, or the archive of one of them",
    "text": "the text",
}


def files_below(folder: Path) -> list[Path]:
    """The files in `folder` and some levels below, nearest first; a file is its own folder.

    Links are followed, to each folder once. What is no file, such as a pipe, is left out.
    """
    if folder.is_file():
        return [folder]
    found: list[Path] = []
    seen: set[Path] = set()
    for here, folders, names in os.walk(folder, followlinks=True):
        place = Path(here)
        level = len(place.relative_to(folder).parts)
        if level == LEVELS or place.resolve() in seen:
            folders.clear()
        if place.resolve() in seen:
            continue
        seen.add(place.resolve())
        folders[:] = sorted(name for name in folders if not is_helper(name))
        paths = (place / name for name in sorted(names) if not is_helper(name))
        found += (path for path in paths if path.is_file())
        if len(found) > MOST:
            break
    return sorted(found, key=lambda path: len(path.parts))


def named(files: Iterable[Path], name: str) -> list[Path]:
    """The files whose names contain `name`, whatever its punctuation; the same name first."""
    key = _plain(name.removesuffix(".bin"))
    found = [path for path in files if key in _plain(path.name)]
    return sorted(found, key=lambda path: path.name not in (name, f"{name}.gz"))


def there(folder: Path, files: Iterable[Path]) -> str:
    """A clause that says what is in the user's folder, by the files that were found below it."""
    if folder.is_file():
        return "it is a file"
    names = [str(path.relative_to(folder)) for path in files if path.is_relative_to(folder)]
    return f"it has {listed(names)}" if names else content(folder)


def archives(files: Iterable[Path], dataset: str) -> list[Path]:
    """The archives that have the dataset's name in theirs."""
    return [
        path
        for path in files
        if path.name.lower().endswith(ARCHIVES) and _plain(dataset) in _plain(path.name)
    ]


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
