"""Data of the user: a file or a folder is prepared once, like a built-in data set.

Its name has a digest of the content and of the options, so that other content is another data set.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suite.datasets import own_images, own_manifest, tables, targets
from suite.datasets.formats import arrays, prepared
from suite.datasets.own_images import ImageSet, Sizes
from suite.datasets.tables import READERS, Missing
from suite.datasets.targets import Targets
from suite.errors import DataError
from suite.manifests import catalog
from suite.manifests.datasets import DatasetManifest
from suite.manifests.files import names as known_names
from suite.manifests.losses import Loss
from suite.messages import Notify
from suite.paths import digest, home, part_of, sha256, write_atomically

SEED = 1  # of the split
READER = "2"  # the version of the reading of tables and arrays: what another one read is not used
ARRAYS = (".npz", ".npy")
MOST_CLASSES = 100_000  # of class numbers in an array: more are other numbers, or unset labels
INPUT_KEYS, LABEL_KEYS = ("X", "x", "inputs", "images", "data"), ("y", "Y", "labels", "targets")


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a file or a folder is read."""

    target: tuple[str, ...] = ()  # of a table: the columns of the targets
    loss: Loss | None = None  # None: the one that the targets are for
    labels: Path | None = None  # of an .npy file: the file of the labels
    split: float = 0.15  # the share that is held out for the test
    missing: Missing = "refuse"
    sizes: Sizes = field(default_factory=Sizes)  # of a folder of images


def is_path(text: str) -> bool:
    """Whether data is named by its file or folder, and not by the name of a data set."""
    if Path(text).suffix.lower() in (*READERS, *ARRAYS) or "/" in text:
        return True
    known = text in known_names("dataset") or catalog.own_dataset(text) is not None
    return Path(text).is_dir() and not known


def register(path: Path, options: Options, notify: Notify) -> str:
    """Prepare the data in a file or folder, unless that is done; return the data set's name.

    Raise DataError where it is missing, or its values cannot be used; nothing is left then, but for
    images that are decoded already: the next call continues with the others.
    """
    if path.is_dir():
        return _of_images(own_images.read(path, options.sizes, options.split, notify), notify)
    if not path.is_file():
        raise DataError(f"{path}: no such file or folder", hint="ls -d *.csv *.npz */")
    if path.suffix.lower() not in (*READERS, *ARRAYS):
        known = ", ".join((*READERS, *ARRAYS))
        raise DataError(f"{path}: not one of {known}", hint="docs/how-to/own-data.md")
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


def _of_images(images: ImageSet, notify: Notify) -> str:
    name = f"{_slug(images.found.root.name)}_{images.sha256[:8]}"
    target = home() / "datasets" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    manifest = images.write(name, target, notify)
    write_atomically(target / catalog.OWN, manifest.model_dump_json(indent=1) + "\n")
    return name


def _name(path: Path, options: Options) -> str:
    labels = sha256(options.labels) if options.labels and options.labels.is_file() else ""
    parts = [READER, sha256(path), labels, *options.target, str(options.loss)]
    parts += [f"{options.split:g}", options.missing]
    return f"{_slug(path.stem)}_{digest(parts)[:8]}"


def _slug(text: str) -> str:
    """The text as the beginning of a name."""
    return "".join(each if each.isascii() and each.isalnum() else "_" for each in text.lower())


def _of_table(
    path: Path, options: Options, folder: Path, name: str, notify: Notify
) -> DatasetManifest:
    table = tables.read(
        path,
        target=options.target,
        loss=options.loss,
        split=options.split,
        missing=options.missing,
        seed=SEED,
    )
    for line in tables.lines(table):
        notify(f"{path.name}: {line}")
    return _write(folder, name, path, table.inputs, table.targets, table.train)


def _of_arrays(
    path: Path, options: Options, folder: Path, name: str, notify: Notify
) -> DatasetManifest:
    inputs, labels = _arrays(path, options)
    if inputs.ndim == 3:  # signals are images of height 1
        inputs = inputs[:, :, None]
    if inputs.ndim not in (2, 4) or not inputs.size:
        raise DataError(
            f"{path}: shape {inputs.shape} is neither (samples, features) nor"
            " (samples, channels, length) nor (samples, channels, height, width)",
            hint="np.moveaxis(X, -1, 1) turns channels-last images",
        )
    of_pixels = labels.ndim == 3 and labels.shape[1:] == inputs.shape[2:]
    fits = of_pixels or labels.ndim in (1, 2)
    if labels.shape[:1] != inputs.shape[:1] or not fits or labels.dtype.kind not in "iufb":
        raise DataError(
            f"{path}: {len(inputs):,} samples and {labels.dtype} labels of shape {labels.shape}",
            hint="one label for each sample, one row of numbers, or the class of each pixel",
        )
    if inputs.dtype != np.uint8:
        inputs = _floats(path, inputs)
    train = np.random.default_rng(SEED).permutation(len(labels)) >= round(
        options.split * len(labels)
    )
    if not 0 < train.sum() < len(train):
        raise DataError(
            f"{path}: {len(train)} samples are too few for a split of {options.split:g}",
            hint="--split 0.5",
        )
    if of_pixels:
        found = _of_pixels(path, labels, options.loss)
    else:
        found = _targets(path, labels, options.loss, train)
    notify(f"{path.name}: {len(labels):,} samples {inputs.shape[1:]}")
    for line in found.lines:
        notify(f"{path.name}: {line}")
    return _write(folder, name, path, inputs, found, train)


def _targets(
    path: Path, labels: NDArray[Any], loss: Loss | None, train: NDArray[np.bool_]
) -> Targets:
    """The targets of an array (samples,) or (samples, outputs), of the loss that is asked for.

    Without one: classes from whole numbers, labels from rows of zeros and ones, numbers from
    others. Rows of which each has a single 1 are classes.
    """
    rows = labels.reshape(len(labels), -1)
    hot = rows.shape[1] > 1 and targets.is_binary(rows)
    one_hot = hot and bool((rows.sum(axis=1) == 1).all())
    if loss is None and rows.shape[1] == 1 and labels.dtype.kind == "f":
        if not _fractions(rows).any():
            raise DataError(
                f"{path}: labels of type {labels.dtype} without fractions: classes, or numbers?",
                hint="--loss cross_entropy, or --loss mean_squared_error",
            )
        loss = "mean_squared_error"
    if loss is None and (one_hot or rows.shape[1] == 1):
        loss = "cross_entropy"
    if loss == "cross_entropy":
        return _classes(path, rows.argmax(axis=1) if one_hot else rows)
    if loss == "binary_cross_entropy" or (loss is None and hot):
        return targets.labels(rows, str(path))
    return targets.numbers(rows, train, str(path), loss or "mean_squared_error")


def _of_pixels(path: Path, labels: NDArray[Any], loss: Loss | None) -> Targets:
    """The classes (samples, height, width) of pixels as (samples, height x width)."""
    if loss not in (None, "cross_entropy"):
        raise DataError(
            f"{path}: labels of shape {labels.shape} are classes of pixels, not for {loss}",
            hint="--loss cross_entropy",
        )
    found = _classes(path, labels.reshape(-1))
    return replace(found, values=found.values.reshape(len(labels), -1))


def _classes(path: Path, labels: NDArray[Any]) -> Targets:
    """Class numbers from 0; DataError where one is none."""
    if labels.ndim == 2 and labels.shape[1] > 1:
        raise DataError(
            f"{path}: labels of shape {labels.shape} are no classes",
            hint="--loss mean_squared_error",
        )
    flat = labels.reshape(-1)
    wrong = (flat < 0) | _fractions(flat)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0]) + 1
        raise DataError(
            f"{path}: label {flat[row - 1]!s} in row {row} is no class number from 0",
            hint="np.unique(y, return_inverse=True)[1]",
        )
    classes = int(flat.max()) + 1
    if not 2 <= classes <= MOST_CLASSES:
        raise DataError(
            f"{path}: labels up to {classes - 1:,} are {classes:,} classes, a target has 2 to"
            f" {MOST_CLASSES:,}",
            hint="np.unique(y, return_inverse=True)[1] numbers the labels that there are",
        )
    return Targets(
        values=flat.astype(np.int32),
        loss="cross_entropy",
        outputs=classes,
        lines=(f"{classes} classes",),
    )


def _arrays(path: Path, options: Options) -> tuple[NDArray[Any], NDArray[Any]]:
    """The inputs and the labels; pickled objects are refused."""
    if path.suffix.lower() == ".npz":
        with _loaded(path, several=True) as file:
            return _of(file, INPUT_KEYS, path), _of(file, LABEL_KEYS, path)
    if options.labels is None:
        raise DataError(f"{path}: where are its labels?", hint="--labels y.npy")
    with _loaded(path) as inputs, _loaded(options.labels) as labels:
        return inputs, labels


@contextmanager
def _loaded(path: Path, *, several: bool = False) -> Iterator[Any]:
    """As formats.arrays.loaded, with DataError."""
    try:
        with arrays.loaded(path, several=several) as values:
            yield values
    except ValueError as error:
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


def _fractions(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a value is no whole number; infinite ones are none."""
    with np.errstate(invalid="ignore"):
        found: NDArray[np.bool_] = values % 1 != 0
    return found


def _floats(path: Path, inputs: NDArray[Any]) -> NDArray[np.float32]:
    """The inputs in float32; DataError where one is none, or is larger than float32 allows."""
    if inputs.dtype.kind not in "iuf":
        raise DataError(f"{path}: values of type {inputs.dtype}", hint="numbers")
    with np.errstate(over="ignore"):
        values = inputs.astype(np.float32)
    if place := targets.first(~np.isfinite(values.reshape(len(values), -1))):
        row, column = place
        value = inputs.reshape(len(inputs), -1)[row, column]
        raise DataError(
            f"{path}, row {row + 1}, column {column + 1}: {value} is no finite float32",
            hint="correct it",
        )
    return values


def _write(
    folder: Path,
    name: str,
    path: Path,
    inputs: NDArray[Any],
    found: Targets,
    train: NDArray[np.bool_],
) -> DatasetManifest:
    for split, chosen in (("train", train), ("test", ~train)):
        np.save(folder / f"{split}_inputs.npy", np.ascontiguousarray(inputs[chosen]))
        np.save(folder / f"{split}_labels.npy", found.values[chosen])
    return own_manifest.describe(
        name,
        f"{path.name}, {len(train):,} samples",
        inputs.shape[1:],
        {"train": int(train.sum()), "test": int((~train).sum())},
        pixels=inputs.dtype == np.uint8,
        outputs=found.outputs,
        loss=found.loss,
        positions=found.values.shape[1:] if found.loss == "cross_entropy" else (),
    )
