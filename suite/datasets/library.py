"""Datasets: obtain, verify, convert once to the shared memory-mapped format (formats/prepared)."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suite.datasets import sources
from suite.datasets.formats import cifar, generated, idx, image_folder, prepared, synthetic
from suite.errors import DataError
from suite.manifests import catalog
from suite.manifests.datasets import DatasetManifest
from suite.manifests.workloads import Workload
from suite.messages import Notify
from suite.paths import home, sha256

Arrays = Callable[[DatasetManifest, Path], Iterator[tuple[str, NDArray[Any]]]]

ARRAYS: dict[str, Arrays] = {
    "idx": idx.arrays,
    "cifar": cifar.arrays,
    "generated": generated.arrays,
}


def folder(manifest: DatasetManifest) -> Path:
    return home() / "datasets" / manifest.name


def command(manifest: DatasetManifest) -> str:
    """The command that prepares the dataset."""
    source = " --from FOLDER" if manifest.format == "image_folder" else ""
    return f"dlsuite data prepare {manifest.name}{source}"


def ready(manifest: DatasetManifest, notify: Notify) -> Path:
    """The prepared dataset's folder, prepared now if it is not there yet.

    Raise DataError where a prepared file is damaged or no source has the data.
    """
    place = folder(manifest)
    damaged = verify(manifest)
    if damaged is None:
        return place
    if not is_prepared(manifest):
        return prepare(manifest, notify=notify)
    raise DataError(
        f"{place / damaged}: cut short or changed since it was prepared", hint=command(manifest)
    )


def is_prepared(manifest: DatasetManifest) -> bool:
    """Whether it is there, in this version of the format, be it damaged or not."""
    try:
        return prepared.read(folder(manifest)) is not None
    except ValueError:
        return True


def verify(manifest: DatasetManifest, *, full: bool = False) -> str | None:
    """The name of the first prepared file that is missing or not what its checksum says.

    Small datasets are always read whole. The files of an image folder are only when `full`, or
    when their size or time is another than when they were last seen to be right.
    """
    place = folder(manifest)
    try:
        description = prepared.read(place)
    except ValueError:
        description = None
    if description is None:
        return prepared.DESCRIPTION
    for name, wanted in manifest.prepared.items():
        if description.files.get(name) != wanted:  # the manifest has changed since
            return name
    large = manifest.format == "image_folder"
    damaged = prepared.damaged(place, description, full=full or not large)
    if large and full and damaged is None:
        prepared.stamp(place, description)
    return damaged


def read(manifest: DatasetManifest) -> prepared.Description:
    """What is prepared: files, digests, the user's image folder; DataError where nothing is."""
    try:
        description = prepared.read(folder(manifest))
    except ValueError:
        description = None
    if description is None:
        raise DataError(f"dataset {manifest.name} is not prepared", hint=command(manifest))
    return description


def of(workload: Workload) -> DatasetManifest:
    """The dataset that the workload names; the synthetic one as its model and batch want it."""
    if workload.dataset == synthetic.NAME:
        return synthetic.fitted(workload)
    return catalog.dataset(workload.dataset)


def describe(manifest: DatasetManifest) -> DatasetManifest:
    """The manifest with the samples and classes that the dataset really has.

    Only of an image folder are they not in the manifest itself; DataError where none is prepared.
    """
    if manifest.format != "image_folder":
        return manifest
    held = read(manifest).images
    assert held is not None  # nothing else is prepared from that format
    return manifest.model_copy(update={"samples": held.samples, "classes": len(held.classes)})


def prepare(manifest: DatasetManifest, *, notify: Notify, source: Path | None = None) -> Path:
    """Obtain, verify and convert; return the folder.

    With `source`, only that local folder is tried. Nothing is left behind on failure, but of an
    image folder what is decoded stays, and the next time goes on from there.
    """
    place = folder(manifest)
    if source is None and verify(manifest) is None:
        return place
    if manifest.format == "image_folder":
        if source is None:
            raise DataError(
                f"{manifest.title}: it may not be passed on, so you must have it already",
                hint=f"{command(manifest)}, where FOLDER holds train/CLASS/* and val/CLASS/*",
            )
        return image_folder.prepare(manifest, place, source, notify)
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{manifest.name}-", dir=place.parent) as staging:
        raw, done = Path(staging) / "raw", Path(staging) / "done"
        raw.mkdir()
        done.mkdir()
        origin = _obtain(manifest, raw, source, notify)
        notify(f"converting {manifest.name}")
        _convert(manifest, raw, done)
        prepared.write(done, manifest.name, origin)
        shutil.rmtree(place, ignore_errors=True)
        done.rename(place)
    return place


def _obtain(manifest: DatasetManifest, raw: Path, source: Path | None, notify: Notify) -> str:
    if manifest.format != "generated":
        return sources.obtain(manifest, raw, source, notify)
    if source is not None:
        hint = f"{command(manifest)}, without --from"
        raise DataError(f"{manifest.name} is made here, not taken from a folder", hint=hint)
    return "made here"


def _convert(manifest: DatasetManifest, raw: Path, done: Path) -> None:
    for name, values in ARRAYS[manifest.format](manifest, raw):
        samples = manifest.samples["test" if name.startswith("test_") else "train"]
        if len(values) != samples:
            raise DataError(
                f"{name} of {manifest.name} are {len(values)}, its manifest says {samples}",
                hint=f"edit manifests/datasets/{manifest.name}.yaml",
            )
        target = done / f"{name}.npy"
        np.save(target, values)
        wanted = manifest.prepared.get(target.name)
        if wanted and sha256(target) != wanted:
            raise DataError(
                f"{target.name} of {manifest.name} came out otherwise than its checksum says",
                hint="report it, with the versions of Python and numpy",
            )
