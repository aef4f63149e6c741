"""The images in a user's folder: train/CLASS/* and val/CLASS/*, as ImageNet is distributed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from suite.datasets.names import content, is_helper, is_utf8, listed, shown
from suite.errors import DataError
from suite.manifests.datasets import SPLITS, Split

FOLDERS: dict[Split, str] = {"train": "train", "test": "val"}
SUFFIXES = (".jpeg", ".jpg", ".png")
HINT = "FOLDER must hold train/CLASS/* and val/CLASS/*, images in one folder for each class"
RENAME = "rename it, for example with convmv"


@dataclass(frozen=True, kw_only=True)
class Listing:
    """The images of a folder, in their order in the prepared files."""

    root: Path
    classes: tuple[str, ...]
    names: dict[Split, list[str]]  # relative to root: train/CLASS/NAME
    labels: dict[Split, NDArray[np.int32]]
    notes: tuple[str, ...]  # what the user should know about the folder, a line each
    sha256: str  # of all classes, and of all names, sizes and times of change


@dataclass
class _Found:
    """What was found so far."""

    hashed: hashlib._Hash = field(default_factory=hashlib.sha256)
    helpers: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)  # in class folders, but not images

    def notes(self) -> Iterator[str]:
        for names, what in (
            (self.helpers, "hidden files and folders of other programs"),
            (self.others, "entries of class folders that are not .jpeg, .jpg or .png files"),
        ):
            if names:
                yield f"ignored {len(names):,} {what}: {listed(names)}"


def read(root: Path) -> Listing:
    """The images in `root`; DataError where it does not have this layout.

    The order is a fixed shuffle of the sorted names, so the first samples of a split come from all
    classes.
    """
    for folder in (root, *root.parents):
        _must_be_utf8(folder)
    found = _Found()
    classes = tuple(_folders(root, "train", found))
    found.hashed.update("\0".join(classes).encode())
    numbers = {name: number for number, name in enumerate(classes)}
    names: dict[Split, list[str]] = {}
    labels: dict[Split, NDArray[np.int32]] = {}
    for split in SPLITS:
        of_class = _images_by_class(root, FOLDERS[split], found, known=numbers)
        counts = [len(images) for images in of_class.values()]
        images = [name for each in of_class.values() for name in each]
        if not images:
            raise DataError(f"{root / FOLDERS[split]} has no images in class folders", hint=HINT)
        order = np.random.RandomState(0).permutation(len(images))
        names[split] = [images[index] for index in order]
        labels[split] = np.repeat([numbers[name] for name in of_class], counts)[order].astype("i4")
    _must_have_images(root, classes, labels["train"])
    return Listing(
        root=root,
        classes=classes,
        names=names,
        labels=labels,
        notes=(*found.notes(), *_order_note(classes)),
        sha256=found.hashed.hexdigest(),
    )


def without(classes: Iterable[str], labels: dict[Split, NDArray[np.int32]]) -> Iterator[str]:
    """A note for each split in which some classes have no image."""
    for split in SPLITS:
        there = set(np.unique(labels[split]).tolist())
        lacking = [name for number, name in enumerate(classes) if number not in there]
        if lacking:
            yield f"{len(lacking):,} classes have no image in {FOLDERS[split]}: {listed(lacking)}"


def _order_note(classes: tuple[str, ...]) -> Iterator[str]:
    if all(name.isdecimal() for name in classes) and list(classes) != sorted(classes, key=int):
        yield (
            "class folders are in the order of their names as text: label 1 is"
            f" {classes[1]}, label 2 is {classes[2]}"
        )


def _must_have_images(root: Path, classes: tuple[str, ...], labels: NDArray[np.int32]) -> None:
    """Raise DataError where a class has no training image: all later labels would be in doubt."""
    counts = np.bincount(labels, minlength=len(classes))
    empty = [f"train/{name}" for name, count in zip(classes, counts, strict=True) if not count]
    if empty:
        there = content(root / empty[0])
        raise DataError(
            f"{root} has {len(empty):,} class folders without images: {listed(empty)}"
            f" (in the first one: {there.removeprefix('it has ').removeprefix('it is ')})",
            hint="remove these folders, or put the images directly into them",
        )


def _folders(root: Path, folder: str, found: _Found) -> list[str]:
    """The class folders in `folder`, sorted; helpers are added to `found`."""
    there = _entries(root, folder, found)
    names = [each.name for each in there if _is(each, os.DirEntry.is_dir)]
    for name in names:
        _must_be_utf8(root / folder / name)
    return names


def _images_by_class(
    root: Path, folder: str, found: _Found, *, known: dict[str, int]
) -> dict[str, list[str]]:
    """The images of each class, sorted. Raise DataError where a class is not in `known`."""
    classes = _folders(root, folder, found) if folder != "train" else list(known)
    unknown = [f"{folder}/{name}" for name in classes if name not in known]
    if unknown:
        raise DataError(f"{root}: {listed(unknown)} is not in train", hint=HINT)
    return {name: _images(root, f"{folder}/{name}", found) for name in classes}


def _images(root: Path, folder: str, found: _Found) -> list[str]:
    """The images of one class, sorted; `found.hashed` gets their names, sizes and times."""
    images = []
    for entry in _entries(root, folder, found):
        name = f"{folder}/{entry.name}"
        if entry.name.lower().endswith(SUFFIXES) and _is(entry, os.DirEntry.is_file):
            _must_be_utf8(root / name)
            images.append(name)
            status = entry.stat()
            line = f"{name} {status.st_size} {status.st_mtime_ns}\n"
            found.hashed.update(line.encode())
        else:
            found.others.append(name)
    return images


def _is(entry: os.DirEntry[str], kind: Callable[[os.DirEntry[str]], bool]) -> bool:
    """Whether the entry is of this kind; a link that leads nowhere is of none."""
    try:
        return kind(entry)
    except OSError:  # a link to itself
        return False


def _must_be_utf8(path: Path) -> None:
    if not is_utf8(path.name):
        raise DataError(f"{shown(path)}: the name is not UTF-8", hint=RENAME)


def _entries(root: Path, folder: str, found: _Found) -> list[os.DirEntry[str]]:
    """The entries of a folder, sorted by name, without helpers, which are added to `found`.

    Raise DataError where the folder cannot be read.
    """
    try:
        with os.scandir(root / folder) as entries:
            there = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        also = f"; {shown(root)}: {content(root)}" if root.is_dir() else ""
        reason = f"{shown(root / folder)}: {error.strerror}{also}"
        raise DataError(reason, hint=HINT) from None
    found.helpers += [f"{folder}/{each.name}" for each in there if is_helper(each.name)]
    return [each for each in there if not is_helper(each.name)]
