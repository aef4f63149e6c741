"""The plan of a suite: every run of every trial, in the order in which they start."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby, product
from typing import TYPE_CHECKING

from suite.errors import UsageError, unknown
from suite.manifests.devices import Devices
from suite.manifests.tracks import RuntimeSettings, Track, configuration
from suite.manifests.workloads import PROOF_STEPS, Measure, Repeats, Workload

if TYPE_CHECKING:
    from suite.manifests.frameworks import FrameworkManifest
    from suite.manifests.suites import SuiteManifest
    from suite.manifests.workloads import SuiteWorkload

ALL = "all"  # in a suite's frameworks: every variant of every framework
Work = tuple[Workload, int]  # a workload and a seed: its trials have the same inputs
Named = tuple[str, str | None, str | None]  # framework, variant and track, as far as named


Series = tuple[str, str, str, str, Workload]


def series(framework: str, variant: str, track: str, device: str, workload: Workload) -> Series:
    """A key that is equal for trials that differ only in their batch size."""
    return framework, variant, track, device, workload.model_copy(update={"batch_size": 0})


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One workload in one framework variant, in one track, on one device set, with one seed."""

    framework: str
    variant: str
    track: str
    runtime: RuntimeSettings = field(hash=False)  # of this framework in this track
    device: str  # a device set
    workload: Workload
    seed: int
    # The number of equal parts of a machine's cores; each rank has one. All trials of a plan have
    # the same, so that a rank has as many cores beside one other rank as beside three.
    cpu_parts: int = 1
    batch_slices: int | None = None  # of a reference, which computes all ranks; None: the ranks
    proof_steps: int = PROOF_STEPS  # training steps that its certificate compares
    # Of its certificate, where that is made at the smallest batch size of a series.
    proof_batch_size: int | None = None
    budget_s: float | None = None  # of all its runs; None: no limit

    @property
    def devices(self) -> Devices:
        """The device set."""
        return Devices.parse(self.device)

    @property
    def slices(self) -> int:
        """The slices of a batch, each with its own statistics of batch norm: one for each rank."""
        return self.batch_slices or self.devices.ranks

    @property
    def proof_trial(self) -> Trial:
        """The trial whose certificate covers this one."""
        if self.proof_batch_size is None:
            return self
        workload = self.workload.model_copy(update={"batch_size": self.proof_batch_size})
        return replace(self, workload=workload)

    @property
    def series(self) -> Series:
        """A key that is equal for trials that differ only in their batch size."""
        return series(self.framework, self.variant, self.track, self.device, self.workload)

    @property
    def configuration(self) -> str:
        """framework:variant, and the track where it is not `equal`."""
        return configuration(self.framework, self.variant, self.track)

    @property
    def work(self) -> Work:
        """Trials of equal work have the same initial weights and the same order of samples."""
        return self.workload, self.seed

    @cached_property
    def trial_id(self) -> str:
        """A name that is unique among all trials, and valid as a file name."""
        workload = self.workload
        name, *numbers = workload.optimizer.model_dump().values()
        optimizer = name + "-".join(f"{number:g}" for number in numbers)
        return (
            f"{self.framework}-{self.variant}-{self.track}-{workload.model}-{workload.dataset}"
            f"-{workload.mode}-b{workload.batch_size}-{workload.precision}-{optimizer}"
            f"-{workload.input}-{self.device.replace(':', '')}-s{self.seed}"
        )


@dataclass(frozen=True, kw_only=True)
class Run:
    """One fresh process of a trial; the first run of each trial trains whole epochs."""

    trial: Trial
    repeat: int

    @property
    def name(self) -> str:
        """The stem of its files, unique among the runs of a plan."""
        return f"{self.trial.trial_id}-r{self.repeat}"

    @property
    def epochs(self) -> int:
        """The whole epochs that it trains."""
        return self.trial.workload.epochs if self.repeat == 0 else 0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All trials and runs of a suite."""

    suite: str
    measure: Measure
    repeats: Repeats
    interleave: bool
    peak: bool
    verify_runs: bool = False  # every run ends with a closing proof, not only the first
    deadline_s: float
    trials: tuple[Trial, ...]
    runs: tuple[Run, ...]  # the maximum; runner/stopping.py decides which are needed
    max_time: str | None = None  # the suite's limit, as --max-time
    notes: tuple[str, ...] = ()  # what was left out, and why

    @property
    def frameworks(self) -> tuple[str, ...]:
        """Each framework once, in the order of the trials."""
        return tuple(dict.fromkeys(trial.framework for trial in self.trials))

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """Each workload once, in the order of the trials."""
        return tuple(dict.fromkeys(trial.workload for trial in self.trials))

    def only(self, trials: Collection[Trial], *notes: str) -> Plan:
        """The plan with these of its trials alone, and further notes."""
        kept = {trial.trial_id for trial in trials}
        return replace(
            self,
            trials=tuple(trial for trial in self.trials if trial.trial_id in kept),
            runs=tuple(run for run in self.runs if run.trial.trial_id in kept),
            notes=(*self.notes, *notes),
        )

    @property
    def works(self) -> tuple[Work, ...]:
        """Each workload with each of its seeds once, in the order of the trials."""
        return tuple(dict.fromkeys(trial.work for trial in self.trials))

    @property
    def groups(self) -> tuple[tuple[Run, ...], ...]:
        """The runs in order; interleaved runs, which start together, form one group."""
        if not self.interleave:
            return tuple((run,) for run in self.runs)
        return tuple(
            tuple(group)
            for _, group in groupby(self.runs, lambda run: (run.repeat, run.trial.work))
        )


def expand(
    suite: SuiteManifest,
    frameworks: dict[str, FrameworkManifest],
    tracks: dict[str, Track],
    *,
    only: Iterable[str] = (),
    devices: Sequence[str] = (),
) -> Plan:
    """All runs of `suite`; `only` (names as `parse` takes them) replaces its frameworks.

    `devices` replaces its device sets. Raise UsageError where a batch cannot be divided by them.

    Each round has one run of every trial, in an order drawn from the suite's seed, so that a slow
    phase of the machine does not hit one framework alone. With several seeds, each seed has rounds
    of its own: an unfinished plan then has complete results of the first seeds.
    """
    devices = tuple(devices) or suite.devices
    sets = [Devices.parse(each) for each in devices]
    chosen = {
        device: dict.fromkeys(
            _resolved(name, track, device, frameworks, tracks)
            for track in suite.tracks
            for name in _named(tuple(only) or suite.frameworks, frameworks)
        )
        for device in devices
    }
    if suite.interleave and any(each.ranks > 1 for each in sets):
        raise UsageError(
            "trials on several devices cannot be interleaved",
            hint="omit --interleave, or --devices",
        )
    parts = max(each.ranks if each.kind == "cpu" else 1 for each in sets)
    seeds = range(suite.seed, suite.seed + suite.seeds)
    trials = tuple(
        Trial(
            framework=framework,
            variant=variant,
            track=track,
            runtime=tracks[track].runtime_settings(frameworks[framework].in_track(track, device)),
            device=device,
            workload=workload,
            seed=seed,
            cpu_parts=1 if device == "cpu" else parts,
            proof_steps=entry.proof_steps or suite.proof_steps,
            proof_batch_size=entry.batch_size if entry.max_batch_size else None,
            budget_s=entry.trial_budget_s or suite.repeats.trial_budget_s,
        )
        for seed in seeds
        for entry, workload, device in _on_devices(suite, devices)
        for framework, variant, track in chosen[device]
    )
    if len({trial.trial_id for trial in trials}) < len(trials):
        raise UsageError(f"suite {suite.name!r} has the same workload twice", hint="dlsuite list")
    rounds = random.Random(suite.seed)
    runs = tuple(
        Run(trial=trial, repeat=repeat)
        for repeat in range(suite.repeats.at_most)
        for seed in seeds
        for trial in _round([trial for trial in trials if trial.seed == seed], rounds)
    )
    return Plan(
        suite=suite.name,
        measure=suite.measure,
        repeats=suite.repeats,
        interleave=suite.interleave,
        peak=suite.peak,
        verify_runs=suite.verify_runs,
        deadline_s=suite.deadline_s,
        max_time=suite.max_time,
        trials=trials,
        runs=runs,
    )


def _on_devices(
    suite: SuiteManifest, devices: Sequence[str]
) -> Iterator[tuple[SuiteWorkload, Workload, str]]:
    """Each workload on each device set, with the entry that it comes from.

    Weak scaling multiplies the batch by the ranks; with one rank it is strong scaling.
    """
    for entry, workload in suite.expanded():
        found: dict[tuple[Workload, str], None] = {}
        for scaling, device in product(suite.scaling, devices):
            ranks = Devices.parse(device).ranks
            batch_size = workload.batch_size * (ranks if scaling == "weak" else 1)
            if batch_size % ranks:
                raise UsageError(
                    f"{workload.model}: a batch of {batch_size} is not divisible by {ranks} ranks",
                    hint=f"--batch-size {batch_size // ranks * ranks or ranks}",
                )
            found[workload.model_copy(update={"batch_size": batch_size}), device] = None
        yield from ((entry, workload, device) for workload, device in found)


def _named(names: Iterable[str], frameworks: dict[str, FrameworkManifest]) -> Iterable[str]:
    """The names, with `all` replaced by every variant of every framework."""
    for name in names:
        if name == ALL:
            yield from (
                f"{framework}:{variant}"
                for framework, manifest in frameworks.items()
                for variant in manifest.variants
            )
        else:
            yield name


def _round(trials: Sequence[Trial], order: random.Random) -> list[Trial]:
    """The trials in random order, grouped by workload; smaller batch sizes come first.

    A trial that does not fit into memory is thus known before the larger ones of its series start.
    """
    workloads = list(dict.fromkeys(trial.workload for trial in trials))
    order.shuffle(workloads)
    workloads.sort(key=lambda workload: workload.batch_size)
    position = {workload: number for number, workload in enumerate(workloads)}
    shuffled = order.sample(trials, len(trials))
    return sorted(shuffled, key=lambda trial: position[trial.workload])


def _resolved(
    name: str,
    track: str,
    device: str,
    frameworks: dict[str, FrameworkManifest],
    tracks: dict[str, Track],
) -> tuple[str, str, str]:
    """Framework, variant and track; omitted ones are `track` and its default variant."""
    framework, variant, own_track = parse(name, frameworks, tracks)
    track = own_track or track
    return framework, variant or frameworks[framework].default_variant(track, device), track


def parse(name: str, frameworks: dict[str, FrameworkManifest], tracks: dict[str, Track]) -> Named:
    """The parts of `framework[:variant][/track]`; UsageError where one is unknown."""
    named, _, track = name.partition("/")
    framework, _, variant = named.partition(":")
    if framework not in frameworks:
        raise unknown("framework", framework, frameworks)
    variants = frameworks[framework].variants
    if variant and variant not in variants:
        raise unknown(f"variant of {framework}", variant, variants)
    if track and track not in tracks:
        raise unknown("track", track, tracks)
    return framework, variant or None, track or None
