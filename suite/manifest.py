"""Manifests: closed YAML files, checked completely before anything starts."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import AfterValidator as After
from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationInfo,
    field_validator,
)

from suite.closed import Closed, M, Name, load
from suite.dataset_manifest import DatasetManifest
from suite.errors import nearest, unknown
from suite.models import MODELS
from suite.paths import MANIFESTS
from suite.tracks import Conditions, DeviceKind, OwnTrack, Track

PROOF_STEPS = 10  # of training that the proof compares


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


def _track(name: str) -> str:
    if name not in names("track"):
        raise ValueError(f"unknown track {name!r}; {nearest(name, names('track'))}")
    return name


TrackName = Annotated[Name, After(_track)]
Kind = Literal["framework", "dataset", "suite", "track"]


# Where each batch comes from before its step (docs/protocol.md).
Input = Literal["host", "disk", "device", "loader"]


class Lack(Closed):
    """What a framework cannot do; its runs are skipped for that reason. What is not said is any."""

    variant: Name | None = None
    device: DeviceKind | None = None
    layer: Name | None = None  # a kind of layer (docs/protocol.md)
    input: Input | None = None
    reason: str


class FrameworkManifest(Closed):
    """manifests/frameworks/<name>.yaml"""

    name: Name
    title: str
    python: Annotated[str, After(_python_range)]
    locks: tuple[str, ...]  # in docker/<name>/, the first that can be installed is used
    cpu_index: str | None = None  # an extra package index for the CPU, used where it answers
    cuda_note: str | None = None  # what to know before it runs on a GPU; doctor says it
    variants: dict[Name, str]  # name -> what it is; the first is the default
    tracks: dict[TrackName, dict[DeviceKind, OwnTrack]] = Field(default={})
    lacks: tuple[Lack, ...] = ()

    @field_validator("tracks")
    @classmethod
    def _with_known_variants(
        cls, value: dict[str, dict[DeviceKind, OwnTrack]], others: ValidationInfo
    ) -> dict[str, dict[DeviceKind, OwnTrack]]:
        variants = others.data.get("variants", {})
        for track, by_device in value.items():
            for own in by_device.values():
                if own.variant not in (None, *variants):
                    near = nearest(str(own.variant), variants)
                    raise ValueError(f"{track}: unknown variant {own.variant!r}; {near}")
        return value

    def own_track(self, track: str, device: str) -> OwnTrack:
        """What the framework does in `track` on `device`; nothing where it does not say."""
        kind: Any = device.partition(":")[0]
        return self.tracks.get(track, {}).get(kind, OwnTrack())

    def variant_in(self, track: str, device: str) -> str:
        """The one to take there where none is named."""
        return self.own_track(track, device).variant or next(iter(self.variants))

    def lacking(self, *, variant: str, device: str, layers: set[str], input: Input) -> str | None:
        """Why this variant cannot run a model of these kinds of layers there; None where it can."""
        for lack in self.lacks:
            concerned = (
                lack.variant in (None, variant),
                lack.device in (None, device.partition(":")[0]),
                lack.layer in {None, *layers},
                lack.input in (None, input),
            )
            if all(concerned):
                return lack.reason
        return None


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
    turn_s: PositiveFloat = 0.25  # of the blocks after warm-up, where workers take turns
    max_warmup_blocks: PositiveInt = 12
    min_measure_s: PositiveFloat = 2
    max_measure_s: PositiveFloat = 5
    relative_error: PositiveFloat = 0.01
    sample_s: NonNegativeFloat = 0.25  # between two looks of the telemetry; 0: none
    idle_s: NonNegativeFloat = 1.0  # of the idle machine, where its power can be read


class Workload(Closed):
    model: Annotated[Name, After(_model)]
    dataset: Name
    mode: Literal["train"] = "train"
    batch_size: PositiveInt
    precision: Literal["float32"] = "float32"
    input: Input = "host"
    optimizer: Optimizer
    # Of the proof's ten steps, where the optimizer's own rate makes chaos of them.
    proof_learning_rate: PositiveFloat | None = None
    # Of the first run of each trial; the others, and with 0 all, stop when steady.
    epochs: NonNegativeInt = 1

    @property
    def proof_optimizer(self) -> Optimizer:
        """The optimizer at the rate of the proof: it is proven with another constant."""
        rate = self.proof_learning_rate or self.optimizer.learning_rate
        return self.optimizer.model_copy(update={"learning_rate": rate})


class Repeats(Closed):
    """How many runs each trial gets: more than `at_least` only while its figure is uncertain."""

    at_least: PositiveInt
    at_most: PositiveInt
    spread: PositiveFloat = 0.02  # half the interval as a share of the median: narrow enough
    budget_s: PositiveFloat | None = None  # of all runs together; none beyond at_least after it

    @field_validator("at_most")
    @classmethod
    def _in_order(cls, value: int, others: ValidationInfo) -> int:
        if value < others.data.get("at_least", value):
            raise ValueError(f"{value} is less than at_least")
        return value


class SuiteManifest(Closed):
    """manifests/suites/<name>.yaml"""

    name: Name
    title: str
    seed: NonNegativeInt
    repeats: Repeats
    proof_steps: PositiveInt = PROOF_STEPS  # fewer where ten take hours
    limit: bool = True  # measure what the device can do at most, before the runs
    verify_runs: bool = False  # every run ends with the closing proof, not only the first
    turns: bool = False  # the trials of a workload run at once, and take turns block by block
    deadline_s: PositiveFloat
    tracks: tuple[TrackName, ...] = Field(min_length=1)  # each framework in each of them
    device: Literal["cpu"] = "cpu"
    frameworks: tuple[str, ...] = Field(min_length=1)  # framework or framework:variant
    workloads: tuple[Workload, ...] = Field(min_length=1)
    measure: Measure = Measure()


@cache
def framework(name: str) -> FrameworkManifest:
    return _named("framework", name, FrameworkManifest)


def frameworks() -> dict[str, FrameworkManifest]:
    """All of them, by name."""
    return {name: framework(name) for name in names("framework")}


def dataset(name: str) -> DatasetManifest:
    return _named("dataset", name, DatasetManifest)


def tracks() -> dict[str, Track]:
    """All of them, by name."""
    return {name: _named("track", name, Track) for name in names("track")}


def conditions(framework_name: str, track: str, device: str) -> Conditions:
    """Those of a framework in a track on a device."""
    own = framework(framework_name).own_track(track, device)
    return _named("track", track, Track).conditions(own)


def suite(name: str) -> SuiteManifest:
    """The suite called `name`, or the one in a file of that path where it ends in .yaml."""
    if name.endswith((".yaml", ".yml")):
        return load(Path(name), SuiteManifest)
    return _named("suite", name, SuiteManifest)


def names(kind: Kind) -> list[str]:
    return sorted(path.stem for path in (MANIFESTS / f"{kind}s").glob("*.yaml"))


def _named(kind: Kind, name: str, schema: type[M]) -> M:
    if name not in names(kind):
        raise unknown(kind, name, names(kind))
    return load(MANIFESTS / f"{kind}s" / f"{name}.yaml", schema)
