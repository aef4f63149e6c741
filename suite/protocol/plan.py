"""The plan of a suite: every run of every trial, in the order in which they start."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby

from suite.manifests.devices import DeviceKind, Devices
from suite.manifests.tracks import RuntimeSettings, configuration
from suite.manifests.workloads import (
    PROOF_DEADLINE_S,
    PROOF_STEPS,
    Measure,
    Repeats,
    Schedule,
    Workload,
)
from suite.paths import digest

Work = tuple[Workload, int]  # a workload and a seed: its trials have the same inputs
SeriesKey = tuple[str, str, str, str, int, Workload]


def series(
    framework: str, variant: str, track: str, device: str, seed: int, workload: Workload
) -> SeriesKey:
    """A key that is equal for trials that differ only in their batch size."""
    of_any_size = workload.model_copy(update={"batch_size": 0})
    return framework, variant, track, device, seed, of_any_size


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
    proof_deadline_s: float = PROOF_DEADLINE_S  # of each worker of a proof
    # Of its certificate, where that is made at the smallest batch size of a series.
    proof_batch_size: int | None = None
    budget_s: float | None = None  # of all its runs; None: no limit
    reference: DeviceKind = "cpu"  # on which its float64 reference is computed

    @property
    def devices(self) -> Devices:
        """The device set."""
        return Devices.parse(self.device)

    @property
    def slices(self) -> int:
        """The slices of a batch, each with its own statistics of batch norm."""
        of_ranks = 1 if self.workload.batch_norm == "synchronized" else self.devices.ranks
        return self.batch_slices or of_ranks

    @property
    def proof_trial(self) -> Trial:
        """The trial whose certificate covers this one.

        A certificate of inference serves all scenarios: the calls of the model are the same.
        """
        changes: dict[str, object] = {}
        if self.proof_batch_size is not None:
            changes["batch_size"] = self.proof_batch_size
        if self.workload.scenario:
            changes |= {"scenario": "offline", "latency_bound_s": None}
        if not changes:
            return self
        return replace(self, workload=self.workload.model_copy(update=changes))

    @property
    def of_any_input(self) -> Trial:
        """A trial that is equal for training trials that differ only in their input.

        They have the same certificate, because its steps take their batches from host memory.
        """
        if self.workload.scenario:
            return self
        return replace(self, workload=self.workload.model_copy(update={"input": "host"}))

    @property
    def series(self) -> SeriesKey:
        """A key that is equal for trials that differ only in their batch size."""
        return series(
            self.framework, self.variant, self.track, self.device, self.seed, self.workload
        )

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
        batch_norm = "" if workload.batch_norm == "per_rank" else f"-{workload.batch_norm}"
        loss = "" if workload.loss == "cross_entropy" else f"-{workload.loss}"
        return (
            f"{self.framework}-{self.variant}-{self.track}-{workload.model}-{workload.dataset}"
            f"-{workload.mode}-b{workload.batch_size}-{workload.precision}{loss}-{_way(workload)}"
            f"-{workload.input}{batch_norm}-{self.device.replace(':', '')}-s{self.seed}"
        )


# The options of an optimizer that its name has only where they are used.
OPTIONS = ("nesterov", "clip_norm", "schedule", "exempt_vectors", "ema_decay")


def _way(workload: Workload) -> str:
    """The optimizer with its constants, or the scenario of inference with its own."""
    if workload.optimizer:
        values = workload.optimizer.model_dump()
        options = {key: values.pop(key, None) for key in OPTIONS}
        name = values.pop("name")
        schedule = workload.optimizer.schedule
        smoothing, weights = workload.label_smoothing, workload.class_weights
        return "-".join(
            [
                str(name) + "-".join(f"{number:g}" for number in values.values()),
                *(["nesterov"] if options["nesterov"] else []),
                *([f"clip{options['clip_norm']:g}"] if options["clip_norm"] else []),
                *([_schedule(schedule)] if schedule else []),
                *([f"ema{options['ema_decay']:g}"] if options["ema_decay"] is not None else []),
                *(["exempt"] if options["exempt_vectors"] else []),
                *([f"smooth{smoothing:g}"] if smoothing else []),
                *([f"weights{digest(map(str, weights))[:8]}"] if weights else []),
                *([f"accumulate{workload.accumulate}"] if workload.accumulate > 1 else []),
            ]
        )
    bound = f"{workload.latency_bound_s:g}" if workload.latency_bound_s else ""
    return f"{workload.scenario}{bound}-{workload.query_samples}"


def _schedule(schedule: Schedule) -> str:
    """All its numbers but those that are 0 or absent."""
    numbers = schedule.model_dump(exclude={"shape"}, exclude_none=True)
    return "-".join([schedule.shape, *(f"{number:g}" for number in numbers.values() if number)])


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
    title: str = ""  # of the suite; empty: of an older version
    measure: Measure
    repeats: Repeats
    interleave: bool
    peak: bool
    staged: bool = False  # each workload is proven right before its runs
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
        """The plan with only these of its trials, and further notes."""
        kept = {trial.trial_id for trial in trials}
        return replace(
            self,
            trials=tuple(trial for trial in self.trials if trial.trial_id in kept),
            runs=tuple(run for run in self.runs if run.trial.trial_id in kept),
            notes=(*self.notes, *notes),
        )

    def with_reference(self, device: DeviceKind) -> Plan:
        """The plan whose references are computed on this kind of device."""
        changed = {trial: replace(trial, reference=device) for trial in self.trials}
        runs = tuple(replace(run, trial=changed[run.trial]) for run in self.runs)
        return replace(self, trials=tuple(changed.values()), runs=runs)

    @property
    def for_accuracies(self) -> bool:
        """Whether its result is accuracies over several seeds, and no rates."""
        return not self.peak and len({trial.seed for trial in self.trials}) > 1

    @property
    def proofs(self) -> Plan:
        """The trials whose certificates cover those of the plan, each once, without runs.

        Of the batch sizes of a series it is the smallest, of the inputs the first, and of inference
        one scenario.
        """
        found: dict[str, Trial] = {}
        for proof in (each.proof_trial for each in self.trials):
            found.setdefault(proof.of_any_input.trial_id, proof)
        return replace(self, trials=tuple(found.values()), runs=())

    @property
    def works(self) -> tuple[Work, ...]:
        """Each workload with each of its seeds once, in the order of the trials."""
        return tuple(dict.fromkeys(trial.work for trial in self.trials))

    @property
    def input_works(self) -> tuple[Work, ...]:
        """The works, and those of the certificates: each needs its inputs."""
        of_proofs = (trial.proof_trial.work for trial in self.trials)
        return tuple(dict.fromkeys((*self.works, *of_proofs)))

    @property
    def groups(self) -> tuple[tuple[Run, ...], ...]:
        """The runs in order; interleaved runs, which start together, form one group."""
        if not self.interleave:
            return tuple((run,) for run in self.runs)
        return tuple(
            tuple(group)
            for _, group in groupby(self.runs, lambda run: (run.repeat, run.trial.work))
        )
