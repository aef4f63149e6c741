"""The groups of options that `run`, `parity` and similar commands share."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from suite.cli.grouped import Group
from suite.cli.options import (
    BatchSize,
    Busy,
    ColorModeChoice,
    Crop,
    Data,
    DeviceSets,
    Engine,
    EngineName,
    Epochs,
    Frameworks,
    FreshPeak,
    FullDurations,
    GpuChoice,
    Hosts,
    IfBusy,
    ImagesFolder,
    Interleave,
    Keep,
    Key,
    Labels,
    LossChoice,
    MaxTime,
    MemoryLimit,
    MissingValues,
    Models,
    Nodes,
    NoInterleave,
    PrecisionChoice,
    ProofSteps,
    Pythons,
    Reference,
    RepeatCount,
    Resize,
    Results,
    Sbatch,
    Scale,
    Scenarios,
    Sign,
    Split,
    SyncBatchNorm,
    Target,
    TpuCount,
    Tracks,
    VerifyRuns,
    WeightsFile,
    absolute_python,
)
from suite.datasets import own
from suite.datasets.own_images import Sizes
from suite.engines.options import EngineOptions
from suite.errors import UsageError
from suite.results import signature
from suite.results.signature import Signer


@dataclass(frozen=True, kw_only=True)
class Choice(Group):
    """The trials of a suite that are wanted."""

    PANEL = "What is run"

    framework: Frameworks = None
    model: Models = None
    track: Tracks = None
    precision: PrecisionChoice = None


@dataclass(frozen=True, kw_only=True)
class OwnWork(Group):
    """The user's weights and data."""

    PANEL = "Your weights and data"

    weights: WeightsFile = None
    data: Data = None
    target: Target = None
    loss: LossChoice = None
    labels: Labels = None
    split: Split = own.Options.split
    missing: MissingValues = "refuse"
    resize: Resize = None
    crop: Crop = None
    color_mode: ColorModeChoice = None

    def dataset(self) -> str | None:
        """The name of the data set, after the user's files are registered; DataError."""
        if self.data is None or not own.is_path(self.data):
            return self.data
        reading = own.Options(
            target=tuple(self.target or ()),
            loss=self.loss,
            labels=self.labels,
            split=self.split,
            missing=self.missing,
            sizes=Sizes(resize=self.resize, crop=self.crop, color_mode=self.color_mode),
        )
        return own.register(Path(self.data), reading, partial(print, file=sys.stderr))


@dataclass(frozen=True, kw_only=True)
class Measuring(Group):
    """How the trials are proven and measured."""

    PANEL = "How it is measured"

    scenario: Scenarios = None
    batch_size: BatchSize = None
    epochs: Epochs = None
    scale: Scale = None
    repeats: RepeatCount = None
    interleave: Interleave = False
    no_interleave: NoInterleave = False
    proof_steps: ProofSteps = None
    verify_runs: VerifyRuns = False
    full_durations: FullDurations = False
    reference: Reference = "auto"
    fresh_peak: FreshPeak = False
    max_time: MaxTime = None

    @property
    def interleaving(self) -> bool | None:
        """The user's choice; None where there is none."""
        if self.interleave and self.no_interleave:
            raise UsageError(
                "--interleave and --no-interleave exclude each other", hint="omit one of them"
            )
        return True if self.interleave else False if self.no_interleave else None


@dataclass(frozen=True, kw_only=True)
class Resources(Group):
    """The engine, and what a worker gets."""

    PANEL = "Where it runs"

    engine: EngineName = Engine.auto
    gpus: GpuChoice = "0"
    tpus: TpuCount = 0
    python: Pythons = None
    memory: MemoryLimit = None
    keep: Keep = False
    if_busy: Busy = IfBusy.wait

    def options(self, machines: Machines | None = None) -> EngineOptions:
        """The choice of an engine as one value."""
        several = machines or Machines()
        return EngineOptions(
            engine=self.engine.value,
            gpus=self.gpus,
            tpus=self.tpus,
            memory=self.memory,
            keep=self.keep,
            # `resume` may start in another folder.
            pythons=tuple(map(absolute_python, self.python or ())),
            nodes=several.nodes or 1,
            sbatch=tuple(several.sbatch or ()),
            images=str(several.images.absolute()) if several.images else None,
            hosts=tuple(several.hosts.split(",")) if several.hosts else (),
        )


@dataclass(frozen=True, kw_only=True)
class AllGpus(Resources):
    """The resources of a command for GPUs."""

    gpus: GpuChoice = "all"


@dataclass(frozen=True, kw_only=True)
class Machines(Group):
    """Several devices and nodes."""

    PANEL = "On several devices and nodes"

    devices: DeviceSets = None
    nodes: Nodes = None
    sync_batch_norm: SyncBatchNorm = False
    sbatch: Sbatch = None
    images: ImagesFolder = None
    hosts: Hosts = None

    @property
    def node_count(self) -> int | None:
        """The number of nodes: --nodes, else one on each of the hosts."""
        return len(self.hosts.split(",")) if self.hosts and self.nodes is None else self.nodes


@dataclass(frozen=True, kw_only=True)
class Output(Group):
    """Where the records go, and who signs them."""

    PANEL = "Results"

    results: Results = Path("results")
    sign: Sign = False
    key: Key = None

    def signer(self) -> Signer | None:
        """Who signs the run; None: nobody."""
        return signature.signer(self.key) if self.sign or self.key else None
