"""Expands a suite into its plan: every trial, and the order of their runs."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING

from suite.errors import UsageError, unknown
from suite.manifests.devices import Devices
from suite.protocol.plan import Plan, Run, Trial

if TYPE_CHECKING:
    from suite.manifests.frameworks import FrameworkManifest
    from suite.manifests.suites import SuiteManifest
    from suite.manifests.tracks import Track
    from suite.manifests.workloads import SuiteWorkload, Workload

ALL = "all"  # in a suite's frameworks: every variant of every framework
Named = tuple[str, str | None, str | None]  # framework, variant and track, as far as named


def expand(
    suite: SuiteManifest,
    frameworks: dict[str, FrameworkManifest],
    tracks: dict[str, Track],
    *,
    only: Iterable[str] = (),
    devices: Sequence[str] = (),
    separate_nodes: bool = False,
) -> Plan:
    """All runs of `suite`; `only` (names as `parse` takes them) replaces its frameworks.

    `devices` replaces its device sets; `separate_nodes` are machines of their own. Raise UsageError
    where a batch cannot be divided by them.

    Each round has one run of every trial, in an order drawn from the suite's seed, so that a slow
    phase of the machine does not hit one framework alone. With several seeds, each seed has rounds
    of its own.
    """
    devices = tuple(devices) or suite.devices
    modes = {workload.mode for workload in suite.workloads}
    named = tuple(_named(tuple(only) or suite.frameworks, frameworks, modes))

    def chosen(entry: SuiteWorkload, device: str) -> dict[tuple[str, str, str], None]:
        """Framework, variant and track of each trial of a workload."""
        return dict.fromkeys(
            _resolved(name, track, device, entry.mode, frameworks, tracks)
            for track in entry.tracks or suite.tracks
            for name in named
        )

    parts = _cpu_parts(suite, devices, separate_nodes=separate_nodes)
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
            proof_steps=1 if workload.scenario else entry.proof_steps or suite.proof_steps,
            proof_deadline_s=suite.proof_deadline_s,
            proof_batch_size=entry.batch_size if len(entry.batch_sizes) > 1 else None,
            budget_s=entry.trial_budget_s or suite.repeats.trial_budget_s,
        )
        for seed in seeds
        for entry, workload, device in _on_devices(suite, devices)
        for framework, variant, track in chosen(entry, device)
    )
    if len({trial.trial_id for trial in trials}) < len(trials):
        raise UsageError(f"suite {suite.name!r} has the same workload twice", hint="dlsuite list")
    runs = runs_of(trials, suite.repeats.at_most, staged=suite.staged)
    return Plan(
        suite=suite.name,
        title=suite.title,
        measure=suite.measure,
        repeats=suite.repeats,
        interleave=suite.interleave is True,  # runner/alternation.py decides where it is `cpu`
        peak=suite.peak,
        staged=suite.staged,
        verify_runs=suite.verify_runs,
        deadline_s=suite.deadline_s,
        max_time=suite.max_time,
        trials=trials,
        runs=runs,
    )


def _check_interleaving(suite: SuiteManifest, sets: Sequence[Devices]) -> None:
    """Raise UsageError where trials cannot alternate."""
    if any(each.ranks > 1 for each in sets):
        raise UsageError(
            "trials on several devices cannot be interleaved",
            hint="omit --interleave, or --devices",
        )
    if any(workload.input == "loader" for _, workload in suite.expanded()):
        raise UsageError(
            "trials with input loader cannot be interleaved: loaders also work while waiting",
            hint="omit --interleave, or name other workloads with --model",
        )


def _cpu_parts(suite: SuiteManifest, devices: Sequence[str], *, separate_nodes: bool) -> int:
    """The number of equal parts of a machine's cores: one for each of its ranks in the largest set.

    So a rank has as many cores in every trial of a plan.
    """
    kinds = {Devices.parse(each).kind for each in devices}
    of_entries = [
        f"{kind}:{entry.ranks}" for entry in suite.workloads if entry.ranks for kind in kinds
    ]
    sets = [Devices.parse(each) for each in (*devices, *of_entries)]
    if suite.interleave is True:
        _check_interleaving(suite, sets)
    on_cpu = [each for each in sets if each.kind == "cpu"]
    return max((each.per_node if separate_nodes else each.ranks for each in on_cpu), default=1)


def runs_of(trials: Sequence[Trial], repeats: int, *, staged: bool = False) -> tuple[Run, ...]:
    """The runs of all rounds; with several seeds, each seed has rounds of its own.

    The order is drawn from the first seed, which is the suite's.
    """
    if staged:
        return _staged_runs(trials, repeats)
    seeds = sorted({trial.seed for trial in trials})
    rounds = random.Random(seeds[0] if seeds else 0)
    return tuple(
        Run(trial=trial, repeat=repeat)
        for repeat in range(repeats)
        for seed in seeds
        for trial in _round([trial for trial in trials if trial.seed == seed], rounds)
    )


def _staged_runs(trials: Sequence[Trial], repeats: int) -> tuple[Run, ...]:
    """The runs of all rounds of the first workload, then those of the next ones."""
    works = dict.fromkeys((trial.work, trial.device) for trial in trials)
    return tuple(
        Run(trial=trial, repeat=repeat)
        for work in works
        for repeat in range(repeats)
        for trial in trials
        if (trial.work, trial.device) == work
    )


def _on_devices(
    suite: SuiteManifest, devices: Sequence[str]
) -> Iterator[tuple[SuiteWorkload, Workload, str]]:
    """Each workload on each device set, with the entry that it comes from.

    Weak scaling multiplies the batch by the ranks; with one rank it is strong scaling.
    """
    for entry, workload in suite.expanded():
        found: dict[tuple[Workload, str], None] = {}
        kinds = dict.fromkeys(Devices.parse(device).kind for device in devices)
        of_entry = [f"{kind}:{entry.ranks}" for kind in kinds] if entry.ranks else devices
        for scaling, device in product(suite.scaling, of_entry):
            ranks = Devices.parse(device).ranks
            batch_size = workload.batch_size * (ranks if scaling == "weak" else 1)
            if batch_size % ranks:
                raise UsageError(
                    f"{workload.model}: a batch of {batch_size} is not divisible by {ranks} ranks",
                    hint=f"--batch-size {batch_size // ranks * ranks or ranks}",
                )
            found[workload.model_copy(update={"batch_size": batch_size}), device] = None
        yield from ((entry, workload, device) for workload, device in found)


def _named(
    names: Iterable[str], frameworks: dict[str, FrameworkManifest], modes: Iterable[str]
) -> Iterable[str]:
    """The names, with `all` replaced by every variant that does one of the modes."""
    for name in names:
        if name == ALL:
            yield from (
                f"{framework}:{variant}"
                for framework, manifest in frameworks.items()
                if manifest.in_all
                for variant in manifest.variants
                if any(manifest.does(mode, variant) for mode in modes)
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
    mode: str,
    frameworks: dict[str, FrameworkManifest],
    tracks: dict[str, Track],
) -> tuple[str, str, str]:
    """Framework, variant and track; omitted ones are `track` and its default variant."""
    framework, variant, own_track = parse(name, frameworks, tracks)
    track = own_track or track
    chosen = variant or frameworks[framework].default_variant(track, device, mode)
    return framework, chosen, track


def without_track(name: str) -> str:
    """`framework[:variant]` of `framework[:variant][/track]`."""
    return name.partition("/")[0]


def split(name: str) -> tuple[str, str, str]:
    """The parts of `framework[:variant][/track]`, empty where they are omitted."""
    named, _, track = name.partition("/")
    framework, _, variant = named.partition(":")
    return framework, variant, track


def parse(name: str, frameworks: dict[str, FrameworkManifest], tracks: dict[str, Track]) -> Named:
    """The parts of `framework[:variant][/track]`; UsageError where one is unknown."""
    framework, variant, track = split(name)
    if framework not in frameworks:
        raise unknown("framework", framework, frameworks)
    variants = frameworks[framework].variants
    if variant and variant not in variants:
        raise unknown(f"variant of {framework}", variant, variants)
    if track and track not in tracks:
        raise unknown("track", track, tracks)
    return framework, variant or None, track or None
