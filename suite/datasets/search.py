"""Finds a dataset's raw files in a user's folder, by the names that other libraries give them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from suite.datasets.names import is_helper

LEVELS = 4  # below the user's folder
MOST = 50_000  # files that are looked at
ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")
FITS = {
    "idx": "the IDX files, plain or .gz (torchvision's MNIST/raw), or Keras's mnist.npz",
    "cifar": "cifar-10-batches-bin, cifar-10-batches-py, or the archive of one of them",
    "text": "the text",
}


def files_below(folder: Path) -> list[Path]:
    """The files in `folder` and some levels below, nearest first; a file is its own folder."""
    if folder.is_file():
        return [folder]
    found: list[Path] = []
    for here, folders, names in os.walk(folder):
        level = len(Path(here).relative_to(folder).parts)
        folders[:] = [] if level == LEVELS else sorted(n for n in folders if not is_helper(n))
        found += (Path(here, name) for name in sorted(names) if not is_helper(name))
        if len(found) > MOST:
            break
    return sorted(found, key=lambda path: len(path.parts))


def named(files: Iterable[Path], name: str) -> list[Path]:
    """The files whose names contain `name`, whatever its punctuation; the same name first."""
    key = _plain(name.removesuffix(".bin"))
    found = [path for path in files if key in _plain(path.name)]
    return sorted(found, key=lambda path: path.name not in (name, f"{name}.gz"))


def archives(files: Iterable[Path], dataset: str) -> list[Path]:
    """The archives that have the dataset's name in theirs."""
    return [
        path
        for path in files
        if path.name.lower().endswith(ARCHIVES) and _plain(dataset) in _plain(path.name)
    ]


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
