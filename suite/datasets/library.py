"""The library of datasets, each obtained, verified and converted once to the shared format.

The shared format is in formats/prepared.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suite import locks
from suite.datasets import sources
from suite.datasets.formats import cifar, generated, idx, image_folder, prepared, synthetic, text
from suite.datasets.names import is_helper, listed
from suite.errors import DataError
from suite.manifests import catalog
from suite.manifests.datasets import DatasetManifest
from suite.manifests.workloads import Workload
from suite.messages import Notify
from suite.models import MODELS
from suite.paths import home, sha256

POLL_S = 0.2
Arrays = Callable[[DatasetManifest, Path], Iterator[tuple[str, NDArray[Any]]]]

ARRAYS: dict[str, Arrays] = {
    "idx": idx.arrays,
    "cifar": cifar.arrays,
    "generated": generated.arrays,
    "text": text.arrays,
}


def folder(manifest: DatasetManifest) -> Path:
    """The folder of the prepared dataset, whether it exists or not."""
    return home() / "datasets" / manifest.name


def command(manifest: DatasetManifest) -> str:
    """The command that prepares the dataset."""
    if manifest.format == "own":
        return "dlsuite run SUITE --data PATH"
    source = " --from FOLDER" if manifest.format == "image_folder" else ""
    return f"dlsuite data prepare {manifest.name}{source}"


def ready(manifest: DatasetManifest, notify: Notify) -> Path:
    """The prepared dataset's folder; the dataset is prepared first where that is missing.

    Raise DataError where a prepared file is damaged or no source has the data.
    """
    target = folder(manifest)
    damaged = verify(manifest)
    if damaged is None:
        _must_have_own_classes(manifest)
        return target
    if not is_prepared(manifest):
        return prepare(manifest, notify=notify)
    raise DataError(
        f"{target / damaged}: missing, truncated or changed since it was prepared",
        hint=command(manifest),
    )


def _must_have_own_classes(manifest: DatasetManifest) -> None:
    """Raise DataError where an older dlsuite has taken folders of other programs for classes."""
    images = read(manifest).images
    helpers = [name for name in images.classes if is_helper(name)] if images else []
    if helpers:
        raise DataError(
            f"{manifest.name} was prepared with {listed(helpers)} as classes, so its labels are"
            " shifted",
            hint=command(manifest),
        )


def is_prepared(manifest: DatasetManifest) -> bool:
    """Whether the dataset is prepared in this version of the format, even if it is damaged."""
    try:
        return prepared.read(folder(manifest)) is not None
    except ValueError:
        return True


def verify(manifest: DatasetManifest, *, full: bool = False) -> str | None:
    """The name of the first prepared file that is missing or does not match its checksum.

    Small datasets are always read completely. The files of an image folder are read only when
    `full`, or when their size or time has changed since they last matched.
    """
    target = folder(manifest)
    try:
        description = prepared.read(target)
    except ValueError:
        description = None
    if description is None:
        return prepared.DESCRIPTION
    for name, expected in manifest.prepared.items():
        if description.files.get(name) != expected:  # the manifest has changed since
            return name
    large = description.images is not None
    damaged = prepared.damaged(target, description, full=full or not large)
    if large and full and damaged is None:
        prepared.stamp(target, description)
    return damaged


def read(manifest: DatasetManifest) -> prepared.Description:
    """The description of the prepared dataset; DataError where it is not prepared."""
    try:
        description = prepared.read(folder(manifest))
    except ValueError:
        description = None
    if description is None:
        raise DataError(f"dataset {manifest.name} is not prepared", hint=command(manifest))
    return description


def of(workload: Workload) -> DatasetManifest:
    """The dataset of a workload; synthetic data and text have the shape that the model takes."""
    if workload.dataset == synthetic.NAME:
        return synthetic.fitted(workload)
    manifest = catalog.dataset(workload.dataset)
    model = MODELS[workload.model]()
    if manifest.format == "text" and model.takes_tokens:
        return text.fitted(manifest, model.input_shape)
    return manifest


def describe(manifest: DatasetManifest) -> DatasetManifest:
    """The manifest with the actual numbers of samples and classes.

    They differ from the manifest's only for an image folder; DataError where none is prepared.
    """
    if manifest.format != "image_folder":
        return manifest
    images = read(manifest).images
    assert images is not None  # an image folder's description always has them
    return manifest.model_copy(update={"samples": images.samples, "classes": len(images.classes)})


def prepare(manifest: DatasetManifest, *, notify: Notify, source: Path | None = None) -> Path:
    """Obtain, verify and convert the dataset; return its folder.

    With `source`, only that local folder is tried. A failure leaves no files, except the decoded
    images of an image folder: the next call continues with the remaining images.
    """
    target = folder(manifest)
    if source is None and verify(manifest) is None:
        return target
    if manifest.format == "own":
        raise DataError(f"{manifest.title} is not prepared here", hint=command(manifest))
    if manifest.format == "image_folder":
        if source is None:
            raise DataError(
                f"{manifest.title}: its license forbids redistribution; use your own copy",
                hint=f"{command(manifest)}, where FOLDER holds train/CLASS/* and val/CLASS/*",
            )
        return image_folder.prepare(manifest, target, source, notify)
    with _writing(target.parent):
        return _prepare_files(manifest, target, source, notify)


def _prepare_files(
    manifest: DatasetManifest, target: Path, source: Path | None, notify: Notify
) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        _preparing(manifest.name),
        tempfile.TemporaryDirectory(prefix=f".{manifest.name}-", dir=target.parent) as staging,
    ):
        if source is None and verify(manifest) is None:
            return target  # another process has just prepared it
        raw, done = Path(staging) / "raw", Path(staging) / "done"
        raw.mkdir()
        done.mkdir()
        origin = _obtain(manifest, raw, source, notify)
        notify(f"converting {manifest.name}")
        _convert(manifest, raw, done)
        prepared.write(done, manifest.name, origin)
        shutil.rmtree(target, ignore_errors=True)
        done.rename(target)
    return target


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Make a failed write of the block, such as on a full disk, a DataError with its folder."""
    try:
        yield
    except OSError as error:  # what a source lacks or denies is a DataError already
        free = _free_bytes(folder)
        left = "" if free is None else f" ({free / 2**20:,.0f} MiB are free)"
        raise DataError(
            f"{folder}: {error.strerror or f'not all was written: {error}'}{left}",
            hint="free space there, or set DLSUITE_HOME to a folder on another disk",
        ) from error


def _free_bytes(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


@contextmanager
def _preparing(name: str) -> Iterator[None]:
    """Wait until no other process prepares the dataset with this name."""
    folder = home() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"dataset-{name}.lock"
    descriptor = locks.opened(path)
    try:
        while not locks.try_lock(descriptor, path):
            time.sleep(POLL_S)
        yield
    finally:
        os.close(descriptor)


def _obtain(manifest: DatasetManifest, raw: Path, source: Path | None, notify: Notify) -> str:
    """Put the raw files of the dataset, if it has any, into `raw`; return their origin."""
    if manifest.format != "generated":
        return sources.obtain(manifest, raw, source, notify)
    if source is not None:
        hint = f"{command(manifest)}, without --from"
        raise DataError(f"{manifest.name} is generated, not read from a folder", hint=hint)
    return prepared.GENERATED


def _convert(manifest: DatasetManifest, raw: Path, done: Path) -> None:
    """Write the prepared arrays into `done`; DataError where they differ from the manifest."""
    for name, values in ARRAYS[manifest.format](manifest, raw):
        counts = manifest.tokens or manifest.samples
        expected = counts["test" if name.startswith("test_") else "train"]
        if len(values) != expected:
            raise DataError(
                f"{name} of {manifest.name} has {len(values)} values, its manifest has {expected}",
                hint=f"edit manifests/datasets/{manifest.name}.yaml",
            )
        target = done / f"{name}.npy"
        np.save(target, values)
        checksum = manifest.prepared.get(target.name)
        if checksum and sha256(target) != checksum:
            raise DataError(
                f"the generated {target.name} of {manifest.name} does not match its checksum",
                hint="report it, with the versions of Python and numpy",
            )
