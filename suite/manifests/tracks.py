"""Tracks: the settings that all frameworks share, and each framework's own settings."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from suite.errors import nearest
from suite.manifests.files import names
from suite.manifests.strict import Name, Strict

EQUAL = "equal"
Threads = Literal["cores", "own"]
Environment = dict[Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")], str]
# Environment variables that have an effect only where there is a GPU.
OF_GPUS = ("NVIDIA_TF32_OVERRIDE", "XLA_PYTHON_CLIENT_PREALLOCATE", "TF_FORCE_GPU_ALLOW_GROWTH")
FrameworkSettings = dict[Name, bool | int | str]


def known_track(name: str) -> str:
    """The name of a track; ValueError where there is none of this name."""
    if name not in names("track"):
        raise ValueError(f"unknown track {name!r}; {nearest(name, names('track'))}")
    return name


TrackName = Annotated[Name, AfterValidator(known_track)]


def configuration(framework: str, variant: str, track: str) -> str:
    """The name that the command line takes: pytorch:compiled, mxnet:hybrid/tuned."""
    return f"{framework}:{variant}" + (f"/{track}" if track != EQUAL else "")


class FrameworkTrack(Strict):
    """The settings of one framework in a track on one kind of device."""

    variant: Name | None = None  # used where the user names none; None: the framework's first
    infer: Name | None = None  # the variant of inference; None: that of training
    # For the framework's module in the worker, which refuses unknown settings.
    settings: FrameworkSettings = Field(default={})
    environment: Environment = Field(default={})  # in addition to the track's


class Rules(Strict):
    """The settings that all frameworks share in a track."""

    threads: Threads  # one per core, or the framework's own choice
    tf32: bool | None  # whether a GPU may multiply float32 in TF32; null: the framework's default
    environment: Environment = Field(default={})


class RuntimeSettings(Rules):
    """The settings of one trial: the track's, and the framework's own."""

    settings: FrameworkSettings = Field(default={})

    def effective(self, device: str) -> RuntimeSettings:
        """The settings without those that have no effect on `device`."""
        if device != "cpu":
            return self
        kept = {name: value for name, value in self.environment.items() if name not in OF_GPUS}
        return self.model_copy(update={"tf32": None, "environment": kept})


class Track(Rules):
    """manifests/tracks/<name>.yaml"""

    name: Name
    title: str

    def runtime_settings(self, own: FrameworkTrack) -> RuntimeSettings:
        """The track's settings together with a framework's own."""
        return RuntimeSettings(
            threads=self.threads,
            tf32=self.tf32,
            environment={**self.environment, **own.environment},
            settings=own.settings,
        )


# For workers that measure the hardware peak in every precision: of the track `equal`, what makes
# products and copies fast.
UNRESTRICTED = RuntimeSettings(
    threads="cores",
    tf32=None,
    environment={
        "TF_ENABLE_ONEDNN_OPTS": "1",
        "MALLOC_TRIM_THRESHOLD_": "2000000000",
        "MALLOC_MMAP_MAX_": "0",
    },
)
