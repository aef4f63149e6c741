"""Data of the user: a file is prepared once, like a built-in data set, and known by a name.

The name has a digest of the file and of the options, so that another file is another data set.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suite.datasets import tables
from suite.datasets.formats import prepared
from suite.datasets.tables import READERS, Missing
from suite.errors import DataError
from suite.manifests import catalog
from suite.manifests.datasets import DatasetManifest, Normalize
from suite.messages import Notify
from suite.paths import digest, home, part_of, sha256, write_atomically

SEED = 1  # of the split
ARRAYS = (".npz", ".npy")
INPUT_KEYS, LABEL_KEYS = ("X", "x", "inputs", "images", "data"), ("y", "Y", "labels", "targets")


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a file is read."""

    target: str | None = None  # of a table: the column of the class
    labels: Path | None = None  # of an .npy file: the file of the labels
    split: float = 0.15  # the share that is held out for the test
    missing: Missing = "refuse"


def is_file(text: str) -> bool:
    """Whether data is named by its file."""
    return Path(text).suffix.lower() in (*READERS, *ARRAYS)


def register(path: Path, options: Options, notify: Notify) -> str:
    """Prepare the data in a file, unless that is done; return the name of the data set.

    Raise DataError where the file is missing, or its values cannot be used; nothing is left then.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file", hint="ls *.csv *.npz")
    name = _name(path, options)
    target = home() / "datasets" / name
    if catalog.own_dataset(name) is not None and prepared.read(target) is not None:
        return name
    part = part_of(target)
    try:
        if path.suffix.lower() in READERS:
            manifest = _of_table(path, options, part, name, notify)
        else:
            manifest = _of_arrays(path, options, part, name, notify)
        prepared.write(part, name, str(path.absolute()))
        write_atomically(part / catalog.OWN, manifest.model_dump_json(indent=1) + "\n")
        shutil.rmtree(target, ignore_errors=True)
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return name


def _name(path: Path, options: Options) -> str:
    labels = sha256(options.labels) if options.labels and options.labels.is_file() else ""
    parts = [sha256(path), labels, str(options.target), f"{options.split:g}", options.missing]
    slug = "".join(each if each.isalnum() else "_" for each in path.stem.lower())
    ascii_slug = slug.encode("ascii", "replace").decode().replace("?", "_")
    return f"{ascii_slug}_{digest(parts)[:8]}"


def _of_table(
    path: Path, options: Options, folder: Path, name: str, notify: Notify
) -> DatasetManifest:
    table = tables.read(
        path, target=options.target, split=options.split, missing=options.missing, seed=SEED
    )
    for line in tables.lines(table):
        notify(f"{path.name}: {line}")
    return _write(
        folder, name, path, table.inputs, table.labels, table.train, classes=len(table.classes)
    )


def _of_arrays(
    path: Path, options: Options, folder: Path, name: str, notify: Notify
) -> DatasetManifest:
    inputs, labels = _arrays(path, options)
    if inputs.ndim not in (2, 4):
        raise DataError(
            f"{path}: shape {inputs.shape} is neither (samples, features) nor"
            " (samples, channels, height, width)",
            hint="np.moveaxis(X, -1, 1) turns channels-last images",
        )
    if len(inputs) != len(labels) or labels.ndim != 1:
        raise DataError(
            f"{path}: {len(inputs):,} samples and labels of shape {labels.shape}",
            hint="one label for each sample",
        )
    wrong = labels < 0 if labels.dtype.kind in "iu" else np.ones(len(labels), bool)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0]) + 1
        raise DataError(
            f"{path}: label {labels[row - 1]!s} in row {row} is no class number from 0",
            hint="np.unique(y, return_inverse=True)[1]",
        )
    if inputs.dtype != np.uint8:
        _must_be_finite(path, inputs)
        inputs = inputs.astype(np.float32)
    train = np.random.default_rng(SEED).permutation(len(labels)) >= round(
        options.split * len(labels)
    )
    classes = int(labels.max()) + 1
    notify(f"{path.name}: {len(labels):,} samples {inputs.shape[1:]}, {classes} classes")
    return _write(folder, name, path, inputs, labels.astype(np.int32), train, classes=classes)


def _arrays(path: Path, options: Options) -> tuple[NDArray[Any], NDArray[Any]]:
    """The inputs and the labels; pickled objects are refused."""
    try:
        if path.suffix.lower() == ".npz":
            with np.load(path, allow_pickle=False) as file:
                found = [_of(file, keys, path) for keys in (INPUT_KEYS, LABEL_KEYS)]
            return found[0], found[1]
        if options.labels is None:
            raise DataError(f"{path}: where are its labels?", hint="--labels y.npy")
        return np.load(path, allow_pickle=False), np.load(options.labels, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path}: {error}", hint="np.savez(FILE, X=inputs, y=labels)") from None


def _of(file: Any, keys: tuple[str, ...], path: Path) -> NDArray[Any]:
    key = next((each for each in keys if each in file.files), None)
    if key is None:
        raise DataError(
            f"{path} has {', '.join(file.files) or 'no arrays'}, none of {', '.join(keys)}",
            hint="np.savez(FILE, X=inputs, y=labels)",
        )
    found: NDArray[Any] = file[key]
    return found


def _must_be_finite(path: Path, inputs: NDArray[Any]) -> None:
    flat = inputs.reshape(len(inputs), -1)
    if inputs.dtype.kind not in "iuf":
        raise DataError(f"{path}: values of type {inputs.dtype}", hint="numbers")
    bad = ~np.isfinite(flat)
    if bad.any():
        row, column = (int(each[0]) for each in np.nonzero(bad))
        raise DataError(
            f"{path}, row {row + 1}, column {column + 1}: {flat[row, column]}", hint="correct it"
        )


def _write(
    folder: Path,
    name: str,
    path: Path,
    inputs: NDArray[Any],
    labels: NDArray[np.int32],
    train: NDArray[np.bool_],
    *,
    classes: int,
) -> DatasetManifest:
    for split, chosen in (("train", train), ("test", ~train)):
        np.save(folder / f"{split}_inputs.npy", np.ascontiguousarray(inputs[chosen]))
        np.save(folder / f"{split}_labels.npy", labels[chosen])
    channels = inputs.shape[1] if inputs.ndim == 4 else 1
    pixels = inputs.dtype == np.uint8
    return DatasetManifest(
        name=name,
        title=f"{path.name}, {len(labels):,} samples",
        format="own",
        shape=inputs.shape[1:],
        classes=classes,
        normalize=Normalize(
            mean=(0.5 if pixels else 0.0,) * channels, std=(0.25 if pixels else 1.0,) * channels
        ),
        samples={"train": int(train.sum()), "test": int((~train).sum())},
    )


def names() -> Iterator[str]:
    """The data sets of the user that are prepared."""
    for path in sorted((home() / "datasets").glob(f"*/{catalog.OWN}")):
        yield path.parent.name
