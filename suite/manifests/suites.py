"""The manifest of a suite: manifests/suites/<name>.yaml, or a file of the user."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, field_validator

from suite.manifests.devices import DeviceSet
from suite.manifests.models import NAME
from suite.manifests.strict import Name, Strict
from suite.manifests.tracks import TrackName, known_track
from suite.manifests.workloads import (
    PROOF_DEADLINE_S,
    PROOF_STEPS,
    Input,
    Measure,
    Precision,
    Repeats,
    SuiteWorkload,
    Workload,
    WorkloadDefaults,
)
from suite.models import MODELS

Scaling = Literal["strong", "weak"]


class SuiteManifest(Strict):
    """Which workloads run, in which frameworks, how often and how long."""

    name: Name
    title: str
    seed: NonNegativeInt
    seeds: PositiveInt = 1  # each trial has the seeds seed, seed + 1, ..., this many
    repeats: Repeats
    proof_steps: PositiveInt = PROOF_STEPS  # fewer where ten take hours
    proof_deadline_s: PositiveFloat = PROOF_DEADLINE_S  # of each worker of a proof
    peak: bool = True  # measure the hardware peak before the runs
    verify_runs: bool = False  # every run ends with a closing proof, not only the first
    # The trials of a workload run at once, block by block in turn; `cpu`: where they can, on a CPU.
    interleave: bool | Literal["cpu"] = False
    # Workload by workload, each proven right before its runs. None starts after max_time, which
    # begins with the first.
    staged: bool = False
    deadline_s: PositiveFloat
    # As --max-time, where the user gives none.
    max_time: str | None = Field(default=None, pattern=r"^(\d+h(\d+m)?(\d+s)?|\d+m(\d+s)?|\d+s)$")
    tracks: tuple[TrackName, ...] = Field(min_length=1)  # each framework in each of them
    devices: tuple[DeviceSet, ...] = Field(default=("cpu",), min_length=1)
    # With several ranks: the suite's batch divided among them (strong), or one for each (weak).
    scaling: tuple[Scaling, ...] = Field(default=("strong",), min_length=1)
    frameworks: tuple[str, ...] = Field(min_length=1)  # framework, framework:variant, or all
    # The order of importance, by which --max-time chooses: precision, input, workload, batch size,
    # track, framework.
    workloads: tuple[SuiteWorkload, ...] = Field(min_length=1)
    precisions: tuple[Precision, ...] = ()  # each workload in each of them; empty: its own
    inputs: tuple[Input, ...] = ()  # each workload with each of them; empty: its own
    default_workload: WorkloadDefaults | None = None  # of each model that the suite does not list
    measure: Measure = Measure()

    @field_validator("workloads")
    @classmethod
    def _known_tracks(cls, value: tuple[SuiteWorkload, ...]) -> tuple[SuiteWorkload, ...]:
        for workload in value:
            for track in workload.tracks:
                known_track(track)
        return value

    @property
    def all_workloads(self) -> tuple[SuiteWorkload, ...]:
        """The listed workloads and, with `default_workload`, one of every other model."""
        if self.default_workload is None:
            return self.workloads
        listed = {workload.model for workload in self.workloads}
        defaults = self.default_workload.model_dump()
        others = [name for name in MODELS if name not in listed and NAME.fullmatch(name)]
        return (*self.workloads, *(SuiteWorkload(model=model, **defaults) for model in others))

    def expanded(self) -> Iterator[tuple[SuiteWorkload, Workload]]:
        """Each workload that runs, in order of importance, with the entry that it comes from."""
        for precision, of_input in product(self.precisions or (None,), self.inputs or (None,)):
            for entry in self.workloads:
                for batch_size in entry.batch_sizes:
                    yield (
                        entry,
                        entry.at(
                            batch_size=batch_size,
                            precision=precision or entry.precision,
                            input=of_input or entry.input,
                        ),
                    )
