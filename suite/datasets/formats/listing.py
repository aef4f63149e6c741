"""The images in a user's folder: train/CLASS/* and val/CLASS/*, as ImageNet is distributed."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from suite.errors import DataError
from suite.manifests.datasets import SPLITS, Split

FOLDERS: dict[Split, str] = {"train": "train", "test": "val"}
SUFFIXES = (".jpeg", ".jpg", ".png")
HINT = "FOLDER must hold train/CLASS/* and val/CLASS/*, images in one folder for each class"


@dataclass(frozen=True, kw_only=True)
class Listing:
    """The images of a folder, in their order in the prepared files."""

    root: Path
    classes: tuple[str, ...]
    names: dict[Split, list[str]]  # relative to root: train/CLASS/NAME
    labels: dict[Split, NDArray[np.int32]]
    sha256: str  # of all names, sizes and times of change


def read(root: Path) -> Listing:
    """The images in `root`; DataError where it does not have this layout.

    The order is a fixed shuffle of the sorted names, so the first samples of a split come from all
    classes.
    """
    classes = tuple(_folders(root / "train"))
    numbers = {name: number for number, name in enumerate(classes)}
    hashed = hashlib.sha256()
    names: dict[Split, list[str]] = {}
    labels: dict[Split, NDArray[np.int32]] = {}
    for split in SPLITS:
        found: list[str] = []
        class_numbers: list[int] = []
        for name in _folders(root / FOLDERS[split]):
            if name not in numbers:
                raise DataError(f"{root}: {FOLDERS[split]}/{name} is not in train", hint=HINT)
            images = _images(root, f"{FOLDERS[split]}/{name}", hashed)
            found += images
            class_numbers += [numbers[name]] * len(images)
        if not found:
            raise DataError(f"{root / FOLDERS[split]} has no images in class folders", hint=HINT)
        order = np.random.RandomState(0).permutation(len(found))
        names[split] = [found[index] for index in order]
        labels[split] = np.array(class_numbers, np.int32)[order]
    return Listing(
        root=root, classes=classes, names=names, labels=labels, sha256=hashed.hexdigest()
    )


def _folders(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())
    except OSError as error:
        raise DataError(f"{folder}: {error.strerror}", hint=HINT) from None


def _images(root: Path, folder: str, hashed: hashlib._Hash) -> list[str]:
    """The images of one class, sorted; `hashed` is updated with their names, sizes and times."""
    with os.scandir(root / folder) as entries:
        found = {
            f"{folder}/{entry.name}": entry.stat()
            for entry in entries
            if entry.name.lower().endswith(SUFFIXES) and entry.is_file()
        }
    for name in sorted(found):
        size, time = found[name].st_size, found[name].st_mtime_ns
        hashed.update(os.fsencode(f"{name} {size} {time}\n"))
    return sorted(found)
