"""The manifest of a published comparison: manifests/papers/<name>.yaml.

It has the suite that repeats the comparison, where its published figures are, and its findings as
statements that the runs can confirm or refute.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, PositiveFloat, model_validator

from suite.manifests import catalog
from suite.manifests.devices import DeviceSet
from suite.manifests.files import names
from suite.manifests.strict import Name, Strict
from suite.manifests.suites import SuiteManifest

# What a publication printed. The rates are samples per second; `train_s` is the whole training.
Measure = Literal[
    "samples_per_s",
    "epoch_s",
    "train_s",
    "accuracy",
    "train_accuracy",
    "train_loss",
    "gpu_memory_mib",
    "gpu_memory_bytes",
    "gpu_power_w",
]
SPEEDS: dict[str, int] = {"samples_per_s": 1, "epoch_s": -1, "train_s": -1}  # the power of speed
PREFIX = "papers/"  # before the name of a published comparison
MEAN = "mean"  # of a column of epochs: the row with the means
# What a finding compares: the speed, how much the durations of epochs vary, the accuracy.
Compared = Literal["speed", "epoch_variation", "accuracy"]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A published figure, with the names of the publication; `value` is None where it has none."""

    measure: Measure
    framework: str
    model: str
    hardware: str
    value: float | None


class Side(Strict):
    """Which trials; what is omitted comes from the claim's `each`, or is the only one there is."""

    framework: str | None = None  # framework, or framework:variant
    model: Name | None = None
    device: DeviceSet | None = None

    def within(self, other: Side) -> Side:
        """This side, with what it omits from another one."""
        own = self.model_dump(exclude_none=True)
        return Side(**{**other.model_dump(exclude_none=True), **own})

    def __str__(self) -> str:
        parts = (self.framework, self.model, self.device)
        return ", ".join(part for part in parts if part)


class Growth(Strict):
    """The claim's ratio is divided by that of the same frameworks on this work."""

    model: Name | None = None
    device: DeviceSet | None = None


class Claim(Strict):
    """The ratio of one side's speed to that of others: above a number, or below it."""

    compared: Compared = "speed"
    of: Side
    to: tuple[Side, ...] = Field(min_length=1)  # each of them
    over: Growth | None = None
    above: PositiveFloat | None = None
    below: PositiveFloat | None = None  # of both one; neither: the ratio is only shown
    models: tuple[Name, ...] = ()  # the claim for each of these models,
    devices: tuple[DeviceSet, ...] = ()  # on each of these devices

    @model_validator(mode="after")
    def _one_limit(self) -> Self:
        if self.above is not None and self.below is not None:
            raise ValueError("above and below exclude each other")
        return self

    def each(self) -> Iterator[Claim]:
        """The claim for each model and device."""
        for model, device in product(self.models or (None,), self.devices or (None,)):
            common = Side(model=model, device=device)
            sides = {
                "of": self.of.within(common),
                "to": tuple(side.within(common) for side in self.to),
            }
            yield self.model_copy(update={**sides, "models": (), "devices": ()})


class Finding(Strict):
    """What a publication found. It holds where all of its claims do, or most of them."""

    statement: str
    claims: tuple[Claim, ...] = Field(min_length=1)
    quorum: Literal["all", "most"] = "all"

    def single_claims(self) -> list[Claim]:
        """Its claims, each for one model and device."""
        return [single for claim in self.claims for single in claim.each()]


class Figures(Strict):
    """Where the published figures are, and which of our trials their names mean."""

    file: str
    # The column that numbers the epochs; the cells are from its rows `mean`.
    epoch: str | None = None
    # The columns whose values, joined by "/", are the name of a publication's framework, and so on.
    framework: tuple[str, ...]
    model: tuple[str, ...] = ()
    hardware: tuple[str, ...]
    # With `measure` and `value`, the columns of a long table; else each key is a column.
    measure: str | None = None
    value: str | None = None
    measures: dict[str, Measure]
    frameworks: dict[str, str]  # -> framework, or framework:variant
    models: dict[str, Name]
    devices: dict[str, DeviceSet | None]  # None: a device that the suite does not have


class PaperManifest(Strict):
    """One published comparison."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9]+-\d{4}$")]
    title: str
    source: str  # who compared what, when
    setting: dict[str, str]  # hardware, software, data, and so on, as published
    assumptions: tuple[str, ...] = ()  # what the publication does not print, and is chosen here
    suite: SuiteManifest
    figures: Figures | None = None  # None: it printed none
    findings: tuple[Finding, ...] = ()


def paper(name: str) -> PaperManifest:
    """The manifest of a published comparison; UsageError where there is none of this name."""
    return catalog.named("paper", name, PaperManifest)


def paper_of(suite_name: str) -> PaperManifest | None:
    """The published comparison that a suite repeats; None where it repeats none."""
    found = suite_name.replace("_", "-")
    return paper(found) if found in names("paper") else None


def suite(name: str, device: str = "cpu") -> SuiteManifest:
    """As `catalog.suite`; `papers/<name>` is the suite of a published comparison."""
    if name.startswith(PREFIX):
        return paper(name.removeprefix(PREFIX)).suite
    return catalog.suite(name, device)


def cells(figures: Figures, folder: Path) -> list[Cell]:
    """The published figures; where one combination of names has none, a cell without a value."""
    rows = [row for row in _rows(figures, folder) if _epoch(figures, row) in (None, MEAN)]
    found = [*_read(figures, rows)]
    if figures.measure:  # a long table has a row for each cell, also for an empty one
        return found
    known = {(each.model, each.hardware, each.framework, each.measure): each for each in found}
    axes = (dict.fromkeys(axis) for axis in zip(*known, strict=True))
    return [
        known.get((model, device, framework, measure))
        or Cell(measure=measure, framework=framework, model=model, hardware=device, value=None)
        for model, device, framework, measure in product(*axes)
    ]


def epochs_s(figures: Figures, folder: Path) -> dict[tuple[str, str, str], list[float]]:
    """The published durations of epochs, by framework, model and hardware.

    The first one is left out: it has the compilation.
    """
    column = next((name for name, each in figures.measures.items() if each == "epoch_s"), None)
    found: dict[tuple[str, str, str], list[float]] = {}
    for row in _rows(figures, folder):
        if column and row[column] and _epoch(figures, row) not in (None, MEAN, "1"):
            named = _names(figures, row)
            key = named["framework"], named["model"], named["hardware"]
            found.setdefault(key, []).append(float(row[column]))
    return found


def _rows(figures: Figures, folder: Path) -> list[dict[str, str]]:
    with (folder / figures.file).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _epoch(figures: Figures, row: dict[str, str]) -> str | None:
    return row[figures.epoch] if figures.epoch else None


def _names(figures: Figures, row: dict[str, str]) -> dict[str, str]:
    return {
        "framework": "/".join(row[column] for column in figures.framework),
        "model": "/".join(row[column] for column in figures.model),
        "hardware": "/".join(row[column] for column in figures.hardware),
    }


def _read(figures: Figures, rows: list[dict[str, str]]) -> Iterator[Cell]:
    for row in rows:
        named = _names(figures, row)
        printed = (
            {row[figures.measure]: row[figures.value]}
            if figures.measure and figures.value
            else {column: row[column] for column in figures.measures}
        )
        for name, text in printed.items():
            value = float(text) if text else None
            yield Cell(measure=figures.measures[name], **named, value=value)
