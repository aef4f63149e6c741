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
    environment: Environment = Field(default={})
    settings: Settings = Field(
        default={}
    )  # for its module in the worker, which refuses what it does not know


class Conditions(Closed):
    """Under which a trial computes."""

    threads: Threads
    tf32: bool | None
    environment: Environment = Field(default={})
    settings: Settings = Field(default={})


class Track(Closed):
    """manifests/tracks/<name>.yaml: the rules for all."""

    name: Name
    title: str
    threads: Threads  # as many as there are cores, or as many as the framework takes by itself
    tf32: bool | None  # whether a GPU may multiply float32 in TF32; null: as the framework has it
    environment: Environment = Field(default={})

    def conditions(self, own: OwnTrack) -> Conditions:
        """The rules, and a framework's own; where both set a variable, its own."""
        return Conditions(
            threads=self.threads,
            tf32=self.tf32,
            environment=self.environment | own.environment,
            settings=own.settings,
        )


# Of a worker that measures the device's limit, in every precision that there is.
UNBOUND = Conditions(threads="cores", tf32=None)
