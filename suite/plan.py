"""A suite manifest becomes a plan: every run of every trial, in the order they will start. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from suite.errors import UsageError, unknown
from suite.manifest import FrameworkManifest, Measure, Repeats, SuiteManifest, Workload
from suite.tracks import Conditions, Track, means

Named = tuple[str, str | None, str | None]  # framework, variant and track, as far as named


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One workload in one framework variant, in one track, on one device."""

    framework: str
    variant: str
    track: str
    conditions: Conditions = field(hash=False)  # what the track makes of this framework
    device: str
    workload: Workload
    seed: int

    @property
    def means(self) -> str:
        return means(self.framework, self.variant, self.track)

    @property
    def trial_id(self) -> str:
        work = self.workload
        name, *numbers = work.optimizer.model_dump().values()
        optimizer = name + "-".join(f"{number:g}" for number in numbers)
        return (
            f"{self.framework}-{self.variant}-{self.track}-{work.model}-{work.dataset}-{work.mode}"
            f"-b{work.batch_size}-{work.precision}-{optimizer}-{work.input}-{self.device}"
        )


@dataclass(frozen=True, kw_only=True)
class Run:
    """One fresh process of a trial; the first of each goes through whole epochs."""

    trial: Trial
    repeat: int

    @property
    def name(self) -> str:
        """Of its files: unique among the runs of a plan."""
        return f"{self.trial.trial_id}-r{self.repeat}"

    @property
    def epochs(self) -> int:
        return self.trial.workload.epochs if self.repeat == 0 else 0


@dataclass(frozen=True, kw_only=True)
class Plan:
    suite: str
    measure: Measure
    repeats: Repeats
    turns: bool
    proof_steps: int
    limit: bool
    verify_runs: bool = False  # every run ends with the closing proof, not only the first
    deadline_s: float
    trials: tuple[Trial, ...]
    runs: tuple[Run, ...]  # the most there may be; suite/repeats.py says which are wanted

    @property
    def frameworks(self) -> tuple[str, ...]:
        """Each once, in the order of the trials."""
        return tuple(dict.fromkeys(trial.framework for trial in self.trials))

    @property
    def groups(self) -> tuple[tuple[Run, ...], ...]:
        """The runs in order, those together that run at once and take turns."""
        if not self.turns:
            return tuple((run,) for run in self.runs)
        return tuple(
            tuple(group)
            for _, group in groupby(self.runs, lambda run: (run.repeat, run.trial.workload))
        )


def expand(
    suite: SuiteManifest,
    frameworks: dict[str, FrameworkManifest],
    tracks: dict[str, Track],
    *,
    only: Iterable[str] = (),
    device: str | None = None,
) -> Plan:
    """All the runs of `suite`; `only` (as `parse` takes them) takes its frameworks' place.

    Runs are interleaved: each round has one run of every trial, in an order drawn from the
    suite's seed, so that a slow quarter of an hour does not fall on one framework.
    """
    device = device or suite.device
    chosen = dict.fromkeys(
        _resolved(name, track, device, frameworks, tracks)
        for track in suite.tracks
        for name in (tuple(only) or suite.frameworks)
    )
    trials = tuple(
        Trial(
            framework=framework,
            variant=variant,
            track=track,
            conditions=tracks[track].conditions(frameworks[framework].own_track(track, device)),
            device=device,
            workload=workload,
            seed=suite.seed,
        )
        for workload in suite.workloads
        for framework, variant, track in chosen
    )
    if len({trial.trial_id for trial in trials}) < len(trials):
        raise UsageError(f"suite {suite.name!r} has a workload twice", hint="dlsuite list")
    rounds = random.Random(suite.seed)
    runs = tuple(
        Run(trial=trial, repeat=repeat)
        for repeat in range(suite.repeats.at_most)
        for trial in _round(trials, rounds)
    )
    return Plan(
        suite=suite.name,
        measure=suite.measure,
        repeats=suite.repeats,
        turns=suite.turns,
        proof_steps=suite.proof_steps,
        limit=suite.limit,
        verify_runs=suite.verify_runs,
        deadline_s=suite.deadline_s,
        trials=trials,
        runs=runs,
    )


def _round(trials: Sequence[Trial], order: random.Random) -> list[Trial]:
    """The trials in random order, those of one workload after each other."""
    workloads = list(dict.fromkeys(trial.workload for trial in trials))
    order.shuffle(workloads)
    shuffled = order.sample(trials, len(trials))
    return sorted(shuffled, key=lambda trial: workloads.index(trial.workload))


def _resolved(
    name: str,
    track: str,
    device: str,
    frameworks: dict[str, FrameworkManifest],
    tracks: dict[str, Track],
) -> tuple[str, str, str]:
    """Framework, variant and track, where `name` does not say: `track`, and what is usual there."""
    framework, variant, own_track = parse(name, frameworks, tracks)
    track = own_track or track
    return framework, variant or frameworks[framework].variant_in(track, device), track


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
