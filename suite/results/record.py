"""The record of one run: its settings, its figures, and how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from suite.manifests.devices import Devices, DeviceSet
from suite.manifests.strict import Strict
from suite.manifests.tracks import RuntimeSettings, configuration
from suite.manifests.workloads import Measure, Repeats, Workload
from suite.protocol.plan import SeriesKey, series
from suite.results.blocks import Block, Blocks, counted
from suite.results.telemetry import Energy, Telemetry, together

# 12: blocks.disturbed and what disturbed them, throttling, neighbours;
# 11: inference, parity.closing.answers; 10: device is a device set, cpu_parts, ranks; 9: blocks are
# columns; 8: the workload is one object; runtime, interleaved; 7: parity.closing, blocks.loss,
# optimizer_steps; 6: blocks.monotonic_ns; 5: parity.steps; 4: runtime; 3: measure, repeats,
# times.total_s; 2: input, data_origin; 1: the first version
SCHEMA_VERSION = 12

Status = Literal["ok", "failed", "timeout", "oom", "skipped"]


class Error(Strict):
    """Why a run failed; `hint` is the next step, where one is known."""

    error_class: str
    message: str
    hint: str | None = None

    @property
    def first_line(self) -> str:
        """The message where there is one line for it; the record and the log have the rest."""
        return (self.message.strip().splitlines() or [""])[0]


class Times(Strict):
    """Durations of the parts of a run, in seconds."""

    import_s: float | None = None
    build_s: float | None = None
    first_step_s: float | None = None
    synchronize_s: float | None = None  # of an idle device
    warmup_s: float | None = None
    measured_s: float | None = None
    exchange_s: float | None = None  # of the gradients of all ranks, without other work
    total_s: float | None = None  # of the whole run, from its start until its status is known
    engine_s: float | None = None  # the engine's overhead, outside the worker's lifetime

    @property
    def first_result_s(self) -> float | None:
        """From the description of the model to the end of the first step or call."""
        if self.build_s is None or self.first_step_s is None:
            return None
        return self.build_s + self.first_step_s


class Neighbour(Strict):
    """A process that was no part of the run, and computed on the same machine."""

    pid: int
    name: str
    cores: float  # mean over the run


class Throttling(Strict):
    """The CPU quota of a cgroup during the timed part."""

    periods: int
    throttled_periods: int  # in which the quota was used up, and the worker had to wait


class Epoch(Strict):
    """The evaluation after a whole epoch."""

    epoch: int
    duration_s: float
    train_loss: float
    train_accuracy: float | None  # None where the targets are numbers
    test_loss: float
    test_accuracy: float | None
    test_samples: int | None = None
    test_loss_error: float | None = None  # the standard error of test_loss


class Memory(Strict):
    """Peak memory of the worker."""

    host_rss_peak_bytes: int | None = None
    device_peak_bytes: int | None = None
    device_reserved_bytes: int | None = None


class Rank(Strict):
    """One of several processes that trained together."""

    rank: int
    memory: Memory = Memory()
    telemetry: Telemetry | None = None
    log: str | None = None


class RateTried(Strict):
    """A step of the search for the highest rate of queries."""

    rate_per_s: float
    p99_s: float
    holds: bool  # 99 % of the queries were within the bound


class Inference(Strict):
    """The timed queries of a run; latencies are those of queries."""

    loadgen: str  # what made the queries and measured them
    queries: int
    samples: int
    mean_s: float | None  # null in scenario offline, as all latencies
    min_s: float | None
    max_s: float | None
    percentiles_s: dict[str, float]  # by percentile: 50, 90, 95, 97, 99, 99.9
    early_stopping_s: dict[str, float]  # LoadGen's upper estimates of percentiles 90 and 99
    call_s: float | None  # median duration of a call of the model at the end of warm-up
    overhead_s: float | None  # of a query, in scenario offline of a call, with a null model
    rate_per_s: float | None = None  # scenario server: of the queries
    rates: tuple[RateTried, ...] = ()  # scenario server: the search for it

    def holds(self, latency_bound_s: float | None) -> bool:
        """Scenario server: whether p99 is within the bound, in the confirmation and when timed."""
        if latency_bound_s is None or (self.rates and not self.rates[-1].holds):
            return False
        return self.percentiles_s.get("99", 0.0) <= latency_bound_s

    @property
    def overhead_share(self) -> float | None:
        """The overhead as a share of the median latency; in scenario offline, of a call."""
        latency_s = self.percentiles_s.get("50", self.call_s)
        return self.overhead_s / latency_s if self.overhead_s and latency_s else None


class Closing(Strict):
    """The closing proof of one run: its last steps compared with the reference.

    In inference, random answers of the timed queries are compared.
    """

    proven: bool
    step: int  # number of the first compared step, from 0
    steps: int = 0  # number of compared steps
    answers: int | None = None  # in inference, the number of compared answers
    draws: int = 0  # dropout masks drawn by the reference; 0: the model has no dropout
    # quantity -> largest relative L2 error; None: not finite, as of a tensor with NaN
    worst: dict[str, float | None] = Field(default={})
    share: float | None = None  # the largest error as a share of its tolerance; None: not finite
    # Share of the tensors whose update is so large that its tolerance would show its omission; None
    # in inference and with dropout, which has another rule.
    visible_share: float | None = None
    duration_s: float | None = None  # of the comparison, without the worker's own steps
    batch_size: int | None = None  # of a smaller batch that it was made with; None: the run's own
    reason: str | None = None  # why it is not proven


class Parity(Strict):
    """Whether the run is proven to be the same work as the reference.

    The certificate, which is made before the runs, proves the first steps; the closing proof of a
    run proves its last ones.
    """

    proven: bool
    steps: int | None = None  # judged ones; fewer than requested where rounding errors explode
    certificate: str | None = None
    closing: Closing | None = None
    reason: str | None = None
    accuracy: float | None = None  # of inference with weights of the user

    def closed(self, closing: Closing) -> Parity:
        """This status, with the closing proof of a run."""
        return self.model_copy(
            update={
                "proven": self.proven and closing.proven,
                "closing": closing,
                "reason": self.reason or closing.reason,
            }
        )


class Record(Strict):
    """One run of one trial. Unknown values are null, never 0."""

    schema_version: int = SCHEMA_VERSION
    run_id: str
    suite: str
    trial_id: str
    framework: str
    framework_version: str | None = None
    variant: str
    track: str
    runtime: RuntimeSettings  # of this framework in this track
    workload: Workload
    parameters: int | None = None
    flops_per_sample: int
    bytes_per_sample: float  # minimum traffic between the device and its memory
    data_origin: str  # where the dataset came from
    device: DeviceSet
    cpu_parts: int = 1  # of the machine's cores; on a CPU, each rank had one
    repeat: int
    seed: int
    measure: Measure
    repeats: Repeats
    interleaved: int = 1  # number of workers that ran at once, block by block; 1: it ran alone
    steady: bool | None = None  # whether warm-up ended because the series was steady
    status: Status
    error: Error | None = None
    engine: str
    image_id: str | None = None
    environment: dict[str, Any]
    times: Times = Times()
    blocks: Blocks = Blocks()
    samples_per_s: float | None = None
    steps: int | None = None  # training steps that the run requested
    optimizer_steps: int | None = None  # steps that the framework counted
    epochs: tuple[Epoch, ...] = ()
    inference: Inference | None = None
    throttling: Throttling | None = None  # of rank 0; None: there is no quota
    neighbours: tuple[Neighbour, ...] = ()  # the busiest first; none where they are not visible
    memory: Memory = Memory()  # on the host of all ranks together, on a device the largest
    telemetry: Telemetry | None = None  # of rank 0
    ranks: tuple[Rank, ...] = ()  # each of several ranks
    parity: Parity
    log: str | None = None

    @property
    def counted_blocks(self) -> list[Block]:
        """The blocks that make the rate."""
        return counted(self.blocks.rows(), self.measure.min_measure_s)

    @property
    def timed_blocks(self) -> list[Block]:
        """The blocks after the warm-up, disturbed ones too."""
        return [each for each in self.blocks.rows() if not each.warmup]

    @property
    def disturbed_s(self) -> float:
        """The duration of the timed blocks that were disturbed."""
        return sum(each.duration_s for each in self.timed_blocks if each.disturbed)

    @property
    def throttled(self) -> float | None:
        """The share of the periods in which a CPU quota was used up; None without a quota."""
        found = self.throttling
        return found.throttled_periods / found.periods if found and found.periods else None

    @property
    def configuration(self) -> str:
        """framework:variant, and the track where it is not `equal`."""
        return configuration(self.framework, self.variant, self.track)

    @property
    def series(self) -> SeriesKey:
        """What runs have in common that differ only in their batch size."""
        return series(
            self.framework, self.variant, self.track, self.device, self.seed, self.workload
        )

    @property
    def devices(self) -> Devices:
        """The device set."""
        return Devices.parse(self.device)

    @property
    def cores(self) -> int:
        """The number of physical cores that its ranks had."""
        devices, separate = self.devices, bool(self.environment.get("separate_nodes"))
        parts = devices.parts_of_machine(self.cpu_parts, separate=separate)
        return len(self.environment.get("cpus") or []) // parts * devices.ranks

    @property
    def reported_device(self) -> dict[str, Any]:
        """The device as the worker reported it; empty where it did not.

        docs/reference/protocol.md has the fields.
        """
        worker = self.environment.get("worker") or {}
        return worker.get("device") or {}

    @property
    def arithmetic(self) -> str:
        """The type of the operands of products: float32, bfloat16, or TF32 where a GPU used it."""
        if self.workload.precision == "bf16_mixed":
            return "bfloat16"
        return "tf32" if self.reported_device.get("tf32") else "float32"

    @property
    def latency_s(self) -> float | None:
        """The median latency of a query; None in training and in scenario offline."""
        return self.inference.percentiles_s.get("50") if self.inference else None

    @property
    def energy(self) -> Energy | None:
        """The energy of the GPUs of all ranks; on a CPU, that of the CPUs of all machines."""
        if self.telemetry is None:
            return None
        of_ranks = [rank.telemetry for rank in self.ranks] or [self.telemetry]
        if self.devices.kind != "cpu":
            return together([each.gpu.energy if each and each.gpu else None for each in of_ranks])
        of_machines = of_ranks[:: self.ranks_of_machine]
        return together([each.cpu_energy if each else None for each in of_machines])

    @property
    def cores_used(self) -> float | None:
        """The mean busy cores of all ranks; None where one is unknown."""
        of_ranks = [rank.telemetry for rank in self.ranks] or [self.telemetry]
        cores = [each.cores for each in of_ranks if each and each.cores is not None]
        return sum(cores) if len(cores) == len(of_ranks) else None

    @property
    def other_cores(self) -> float | None:
        """The mean cores that other processes used on rank 0's machine, without its other ranks."""
        if self.telemetry is None or self.telemetry.other_cores is None:
            return None
        beside = self.ranks[1 : self.ranks_of_machine]
        of_ranks = sum(each.telemetry.cores or 0 for each in beside if each.telemetry)
        return max(0.0, self.telemetry.other_cores - of_ranks)

    @property
    def ranks_of_machine(self) -> int:
        """The number of ranks on each machine."""
        separate = self.environment.get("separate_nodes")
        return self.devices.per_node if separate else self.devices.ranks

    @property
    def name(self) -> str:
        """The name of the run (protocol.plan.Run.name)."""
        return f"{self.trial_id}-r{self.repeat}"


def parity_of(runs: Sequence[Record]) -> Parity:
    """A trial's parity: proven where every run is, and at least one has a closing proof."""
    unproven = next((run.parity for run in runs if not run.parity.proven), None)
    closed = next((run.parity for run in runs if run.parity.closing), None)
    if found := unproven or closed:
        return found
    reason = "no run ended with a closing proof"
    return runs[0].parity.model_copy(update={"proven": False, "reason": reason})
