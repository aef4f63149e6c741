"""The images in a user's folder, in one folder for each class.

The layout is train/CLASS/* and val/CLASS/*, as ImageNet is distributed. Where a share is given,
train/CLASS/* alone and CLASS/* are layouts too: the share of each class is held out for the test.
"""

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

TRAIN = "train"
HELD_OUT = ("val", "valid", "validation", "test")  # the first one that exists is the test split
SPLIT_NAMES = (TRAIN, "training", *HELD_OUT, "testing")  # a class of such a name is no class
SUFFIXES = (".jpeg", ".jpg", ".png")
HINT = (
    "FOLDER holds train/CLASS/* and val/CLASS/*, images in one folder for each class;"
    " your own data may also be CLASS/*"
)
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
    unused: list[str] = field(default_factory=list)  # further folders beside train

    def notes(self) -> Iterator[str]:
        for names, what in (
            (self.helpers, "hidden files and folders of other programs"),
            (self.others, "entries of class folders that are not .jpeg, .jpg or .png files"),
        ):
            if names:
                yield f"ignored {len(names):,} {what}: {listed(names)}"
        if self.unused:
            yield f"not used: {listed(self.unused)}"


def read(root: Path, share: float | None = None) -> Listing:
    """The images in `root`; DataError where it does not have this layout.

    `share` is held out of each class where the folder has no images for the test; without it, such
    a folder is refused. The order is a fixed shuffle of the sorted names, so the first samples of a
    split come from all classes.
    """
    for folder in (root, *root.parents):
        _must_be_utf8(folder)
    found = _Found()
    base = TRAIN if share is None or (root / TRAIN).is_dir() else ""
    classes = tuple(_folders(root, base, found))
    if not base:
        _must_be_no_splits(root, classes)
    found.hashed.update("\0".join(classes).encode())
    training = {name: _images(root, _in(base, name), found) for name in classes}
    held_out = [each for each in HELD_OUT if (root / each).is_dir()] if base else []
    testing = {}
    if held_out or share is None:
        testing = _held_out(root, held_out[0] if held_out else HELD_OUT[0], found, classes)
    found.unused += held_out[1:]
    _must_have_images(root, base, training)
    if share and not testing:
        training, testing = _divided(training, share)
        if len(classes) > 1 and not any(testing.values()):
            images = sum(map(len, training.values()))
            raise DataError(
                f"{root}: {images} images in {len(classes)} classes are too few for a split of"
                f" {share:g}",
                hint="--split 0.5, and at least two images in a class",
            )
    of_split: dict[Split, dict[str, list[str]]] = {"train": training, "test": testing}
    listed_ = {split: _shuffled(of_class, classes) for split, of_class in of_split.items()}
    return Listing(
        root=root,
        classes=classes,
        names={split: names for split, (names, _) in listed_.items()},
        labels={split: labels for split, (_, labels) in listed_.items()},
        notes=(*found.notes(), *_order_note(classes)),
        sha256=found.hashed.hexdigest(),
    )


def _shuffled(
    of_class: dict[str, list[str]], classes: tuple[str, ...]
) -> tuple[list[str], NDArray[np.int32]]:
    """The images of all classes in their fixed order, and their labels."""
    images = [name for each in of_class.values() for name in each]
    counts = [len(each) for each in of_class.values()]
    order = np.random.RandomState(0).permutation(len(images))
    numbers = [classes.index(name) for name in of_class]
    return [images[index] for index in order], np.repeat(numbers, counts)[order].astype("i4")


def _divided(
    of_class: dict[str, list[str]], share: float
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """The images for training and those held out: a share of each class, but never all of it."""
    random = np.random.RandomState(0)
    parts: tuple[dict[str, list[str]], dict[str, list[str]]] = {}, {}
    for name, images in of_class.items():
        held_out = set(
            random.permutation(len(images))[: min(round(share * len(images)), len(images) - 1)]
        )
        for part, chosen in zip(parts, (False, True), strict=True):
            part[name] = [
                each for index, each in enumerate(images) if (index in held_out) == chosen
            ]
    return parts


def without(classes: Iterable[str], labels: dict[Split, NDArray[np.int32]]) -> Iterator[str]:
    """A note for each split in which some classes have no image."""
    for split in SPLITS:
        there = set(np.unique(labels[split]).tolist())
        lacking = [name for number, name in enumerate(classes) if number not in there]
        if lacking:
            yield f"{len(lacking):,} classes have no image for {split}: {listed(lacking)}"


def _order_note(classes: tuple[str, ...]) -> Iterator[str]:
    if all(name.isdecimal() for name in classes) and list(classes) != sorted(classes, key=int):
        first = ", ".join(f"label {label} is {name}" for label, name in [*enumerate(classes)][1:3])
        yield f"class folders are in the order of their names as text: {first}"


def _must_be_no_splits(root: Path, classes: tuple[str, ...]) -> None:
    """Raise DataError where a folder beside those of the classes has the name of a split."""
    splits = [name for name in classes if name.lower() in SPLIT_NAMES]
    if splits:
        others = [f"{name}/" for name in classes if name not in splits]
        beside = f" beside {listed(others)}" if others else ""
        raise DataError(
            f"{root} has {listed([f'{name}/' for name in splits])}{beside}: a split or a class?",
            hint=f"{HINT}; rename or remove the folder that is neither",
        )


def _must_have_images(root: Path, base: str, of_class: dict[str, list[str]]) -> None:
    """Raise DataError where a class has no training image: all later labels could be wrong."""
    empty = [_in(base, name) for name, images in of_class.items() if not images]
    if not of_class or len(empty) == len(of_class):
        raise DataError(f"{root / base} has no images in class folders", hint=HINT)
    if empty:
        there = content(root / empty[0])
        raise DataError(
            f"{root} has {len(empty):,} class folders without images: {listed(empty)}"
            f" (in the first one: {there.removeprefix('it has ').removeprefix('it is ')})",
            hint="remove these folders, or put the images directly into them",
        )


def _in(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _folders(root: Path, folder: str, found: _Found) -> list[str]:
    """The class folders in `folder`, sorted; helpers are added to `found`."""
    there = _entries(root, folder, found)
    names = [each.name for each in there if _is(each, os.DirEntry.is_dir)]
    for name in names:
        _must_be_utf8(root / folder / name)
    return names


def _held_out(
    root: Path, folder: str, found: _Found, known: tuple[str, ...]
) -> dict[str, list[str]]:
    """The images of each class in `folder`, sorted.

    Raise DataError where a class is not in `known`, or there is no image.
    """
    classes = _folders(root, folder, found)
    unknown = [f"{folder}/{name}" for name in classes if name not in known]
    if unknown:
        raise DataError(f"{root}: {listed(unknown)} is not in {TRAIN}", hint=HINT)
    of_class = {name: _images(root, f"{folder}/{name}", found) for name in classes}
    if not any(of_class.values()):
        raise DataError(f"{root / folder} has no images in class folders", hint=HINT)
    return of_class


def _images(root: Path, folder: str, found: _Found) -> list[str]:
    """The images of one class, sorted; `found.hashed` gets their names, sizes and times."""
    images = []
    for entry in _entries(root, folder, found):
        name = _in(folder, entry.name)
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
    found.helpers += [_in(folder, each.name) for each in there if is_helper(each.name)]
    return [each for each in there if not is_helper(each.name)]
