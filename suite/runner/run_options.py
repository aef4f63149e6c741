"""The command line's changes to a suite."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from suite.errors import UsageError, unknown
from suite.manifests.losses import Loss
from suite.manifests.workloads import BatchNorm, Precision, Scenario


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The command line's changes to a suite; None, False and empty values change nothing."""

    frameworks: tuple[str, ...] = ()
    models: tuple[str, ...] = ()  # of the suite, or files of the user
    data: str | None = None  # instead of the suite's
    loss: Loss | None = None  # of the data
    weights: Path | None = None  # of the user: of the only model
    scenarios: tuple[str, ...] = ()
    tracks: tuple[str, ...] = ()
    batch_size: int | None = None
    precision: Precision | None = None
    batch_norm: BatchNorm | None = None
    epochs: int | None = None
    scale: float | None = None  # of the samples that are trained on
    repeats: int | None = None
    seeds: int | None = None
    devices: tuple[str, ...] = ()
    nodes: int | None = None
    proof_steps: int | None = None
    interleave: bool | None = None  # None: as the suite
    verify_runs: bool = False
    full_durations: bool = False

    def check(self) -> None:
        """Raise UsageError where a number is too small, or a scenario unknown."""
        for scenario in self.scenarios:
            if scenario not in get_args(Scenario):
                raise unknown("scenario", scenario, get_args(Scenario))
        if self.scale is not None and not 0 < self.scale <= 1:
            raise UsageError(
                f"--scale is {self.scale:g}; it is above 0 and at most 1", hint="--scale 0.01"
            )
        if self.scale is not None and self.epochs is not None:
            raise UsageError("--scale and --epochs exclude each other", hint="omit one of them")
        minimums = {
            "--batch-size": (self.batch_size, 1),
            "--epochs": (self.epochs, 0),
            "--repeats": (self.repeats, 1),
            "--seeds": (self.seeds, 2),
            "--nodes": (self.nodes, 1),
            "--proof-steps": (self.proof_steps, 1),
        }
        for option, (value, minimum) in minimums.items():
            if value is not None and value < minimum:
                raise UsageError(
                    f"{option} is {value}; the minimum is {minimum}", hint=f"{option} {minimum}"
                )
