"""Tracks: the rules under which all frameworks compute, and what each does of its own in them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from suite.closed import Closed, Name

EQUAL = "equal"
Threads = Literal["cores", "own"]
Environment = dict[Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")], str]
DeviceKind = Literal["cpu", "cuda"]
Settings = dict[Name, bool | int | str]


def means(framework: str, variant: str, track: str) -> str:
    """By what work is done, as the command line takes it: pytorch:compiled, mxnet:hybrid/tuned."""
    return f"{framework}:{variant}" + (f"/{track}" if track != EQUAL else "")


class OwnTrack(Closed):
    """What one framework does in a track on one kind of device, beyond the rules."""

    variant: Name | None = None  # where the suite names none; else the framework's first
    # For its module in the worker, which refuses what it does not know.
    settings: Settings = Field(default={})


class Rules(Closed):
    """What holds for all frameworks."""

    threads: Threads  # as many as there are cores, or as many as the framework takes by itself
    tf32: bool | None  # whether a GPU may multiply float32 in TF32; null: as the framework has it
    environment: Environment = Field(default={})


class Conditions(Rules):
    """Under which a trial computes: the rules with what its framework does of its own."""

    settings: Settings = Field(default={})


class Track(Rules):
    """manifests/tracks/<name>.yaml"""

    name: Name
    title: str

    def conditions(self, own: OwnTrack) -> Conditions:
        """The rules with a framework's own settings."""
        return Conditions(
            threads=self.threads,
            tf32=self.tf32,
            environment=self.environment,
            settings=own.settings,
        )


# Of a worker that measures the device's limit, in every precision that there is.
UNBOUND = Conditions(threads="cores", tf32=None)
