"""The manifest of a framework: manifests/frameworks/<name>.yaml."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import AfterValidator as After
from pydantic import BeforeValidator as Before
from pydantic import Field, PositiveInt, ValidationInfo, field_validator

from suite.errors import nearest
from suite.manifests.devices import KINDS, DeviceKind, Devices
from suite.manifests.losses import Loss
from suite.manifests.strict import Name, Strict, several
from suite.manifests.tracks import FrameworkTrack, TrackName
from suite.manifests.workloads import (
    BatchNorm,
    Input,
    Precision,
    Recipe,
    Scenario,
    Workload,
)

USUAL_BASE = "base"


def _python_range(text: str) -> str:
    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        raise ValueError(f"{text!r} is not a version range, such as '>=3.11,<3.14'") from None
    return text


# A kind of layer (docs/reference/protocol.md), or a field of it: conv2d.groups
LayerName = Annotated[str, Field(pattern=r"^[a-z0-9_]+(\.[a-z_]+)?$")]


class Unsupported(Strict):
    """A combination that a framework cannot run: its runs are skipped, with this reason.

    Omitted fields match anything.
    """

    variant: Name | None = None
    device: DeviceKind | None = None
    layer: Annotated[tuple[LayerName, ...], Before(several)] = ()  # any of these
    input: Input | None = None
    precision: Precision | None = None
    loss: Annotated[tuple[Loss, ...], Before(several)] = ()  # any of these
    recipe: Annotated[tuple[Recipe, ...], Before(several)] = ()  # any of these
    mode: Literal["train", "infer"] | None = None
    scenario: Scenario | None = None
    ranks: Literal["several"] | None = None
    batch_norm: BatchNorm | None = None
    reason: str


class DiskSpace(Strict):
    """The space of a framework's environment or image, in MiB; null where there is none."""

    cpu: PositiveInt | None = None
    cuda: PositiveInt | None = None


class CudaCapability(Strict):
    """The newest compute capability that the CUDA lock has kernels for, and what follows beyond."""

    newest: str = Field(pattern=r"^\d+\.\d+$")
    beyond: str  # what happens on a newer GPU, with its source


class FrameworkManifest(Strict):
    """One framework: its Python, its locks, its variants, and what it does not support."""

    name: Name
    title: str
    packages: tuple[str, ...]  # top-level modules that its code in the worker may import
    python: Annotated[str, After(_python_range)]
    # The base image in docker/pins.toml. With another than the usual one, the framework is a
    # package of that Debian release, and runs only in containers.
    base: Name = USUAL_BASE
    # A command that succeeds where the framework is: it is no package of Python, but the user's. It
    # then has no image.
    check: tuple[str, ...] = ()
    locks: tuple[str, ...]  # in docker/<name>/; the first that can be installed is used
    cpu_index: str | None = None  # an extra package index for the CPU, used where it answers
    cuda_capability: CudaCapability | None = None
    in_all: bool = True  # whether the name `all` in a suite includes it
    disk_mib: DiskSpace = DiskSpace()  # measured; for the estimate before a run
    variants: dict[Name, str]  # name -> description; the first is the default
    tracks: dict[TrackName, dict[DeviceKind, FrameworkTrack]] = Field(default={})
    unsupported: tuple[Unsupported, ...] = ()

    @field_validator("tracks")
    @classmethod
    def _with_known_variants(
        cls, value: dict[str, dict[DeviceKind, FrameworkTrack]], others: ValidationInfo
    ) -> dict[str, dict[DeviceKind, FrameworkTrack]]:
        variants = others.data.get("variants", {})
        for track, by_device in value.items():
            for own in by_device.values():
                for name in (own.variant, own.infer):
                    if name not in (None, *variants):
                        near = nearest(str(name), variants)
                        raise ValueError(f"{track}: unknown variant {name!r}; {near}")
        return value

    @property
    def is_debians(self) -> bool:
        """Whether it is a package of a Debian release."""
        return self.base != USUAL_BASE

    @property
    def has_environment(self) -> bool:
        """Whether its lock alone makes an environment that has it."""
        return not self.is_debians and not self.check

    def does(self, mode: str, variant: str) -> bool:
        """Whether a variant can do this mode of work at all."""
        return not any(
            entry.mode == mode
            and entry.variant in (None, variant)
            and entry.model_fields_set <= {"mode", "variant", "reason"}
            for entry in self.unsupported
        )

    def in_track(self, track: str, device: str) -> FrameworkTrack:
        """The framework's settings in `track` on `device`; empty where the manifest has none."""
        kind: Any = device.partition(":")[0]
        return self.tracks.get(track, {}).get(kind, FrameworkTrack())

    def default_variant(self, track: str, device: str, mode: str) -> str:
        """The variant of a track on a device, in this mode of work, where the user names none."""
        own = self.in_track(track, device)
        of_mode = own.infer if mode == "infer" else None
        return of_mode or own.variant or next(iter(self.variants))

    def unsupported_reason(
        self,
        *,
        variant: str,
        devices: Devices,
        layers: set[str],
        workload: Workload,
    ) -> str | None:
        """Why this variant cannot run a workload with these kinds of layers; None where it can."""
        kind = KINDS[devices.kind]
        if kind.frameworks and self.name not in kind.frameworks:
            return f"it has no {kind.title}, in this suite"
        if devices.ranks > 1 and workload.class_weights:
            return "each of several ranks would divide by the class weights of its own labels"
        if devices.ranks > 1 and workload.accumulate > 1:
            return "the suite accumulates gradients on one device only"
        for entry in self.unsupported:
            matches = (
                entry.variant in (None, variant),
                entry.device in (None, devices.kind),
                not entry.layer or not layers.isdisjoint(entry.layer),
                entry.input in (None, workload.input),
                entry.precision in (None, workload.precision),
                not entry.loss or workload.loss in entry.loss,
                not entry.recipe or not workload.recipe.isdisjoint(entry.recipe),
                entry.mode in (None, workload.mode),
                entry.scenario in (None, workload.scenario),
                entry.ranks is None or devices.ranks > 1,
                entry.batch_norm in (None, workload.batch_norm),
            )
            if all(matches):
                return entry.reason
        return None
