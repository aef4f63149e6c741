"""Finds and loads manifests by name."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from suite.errors import unknown
from suite.manifests.datasets import DatasetManifest
from suite.manifests.files import Kind, names
from suite.manifests.frameworks import FrameworkManifest
from suite.manifests.strict import Strict, load
from suite.manifests.suites import SuiteManifest
from suite.manifests.tracks import RuntimeSettings, Track
from suite.paths import MANIFESTS, home

S = TypeVar("S", bound=Strict)
OWN = "own.json"  # in the folder of a prepared dataset of the user: its manifest
NAME = re.compile("[a-z0-9_]+")


@cache
def framework(name: str) -> FrameworkManifest:
    """Raise UsageError where there is no such framework, ManifestError where its file is wrong."""
    return named("framework", name, FrameworkManifest)


def frameworks() -> dict[str, FrameworkManifest]:
    """All frameworks, by name."""
    return {name: framework(name) for name in names("framework")}


def dataset(name: str) -> DatasetManifest:
    """Raise UsageError where there is no such dataset, ManifestError where its file is wrong."""
    return own_dataset(name) or named("dataset", name, DatasetManifest)


def own_dataset(name: str) -> DatasetManifest | None:
    """A dataset of the user that is prepared; None where there is none of this name."""
    path = home() / "datasets" / name / OWN
    if not NAME.fullmatch(name) or not path.is_file():
        return None
    try:
        return DatasetManifest.model_validate_json(path.read_bytes())
    except ValidationError:  # of another version
        return None


def own_datasets() -> list[str]:
    """The names of the datasets of the user that are prepared, sorted."""
    return sorted(path.parent.name for path in (home() / "datasets").glob(f"*/{OWN}"))


def tracks() -> dict[str, Track]:
    """All tracks, by name."""
    return {name: named("track", name, Track) for name in names("track")}


def runtime_settings(framework_name: str, track: str, device: str) -> RuntimeSettings:
    """The settings of a framework in a track on a device."""
    own = framework(framework_name).in_track(track, device)
    return named("track", track, Track).runtime_settings(own)


def is_suite_file(name: str) -> bool:
    """Whether a suite is named by its file."""
    return name.endswith((".yaml", ".yml"))


def suite(name: str, device: str = "cpu") -> SuiteManifest:
    """The suite `name`, or the suite in the file `name` where that ends in .yaml.

    runner/suite_files.py reads those that name other files of the user.
    A suite may have a form for each kind of device: `all` is all_cpu on a CPU, all_cuda on a GPU.
    """
    if is_suite_file(name):
        return load(Path(name), SuiteManifest)
    of_device = f"{name}_{device.partition(':')[0]}"
    return named("suite", of_device if of_device in names("suite") else name, SuiteManifest)


def named(kind: Kind, name: str, schema: type[S]) -> S:
    """The manifest of this kind and name; UsageError where there is none."""
    if name not in names(kind):
        raise unknown(kind, name, names(kind))
    return load(MANIFESTS / f"{kind}s" / f"{name}.yaml", schema)
