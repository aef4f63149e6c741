"""The schema of each kind of event, a line of events.jsonl."""

from __future__ import annotations

from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from suite.manifests.workloads import Scenario
from suite.protocol.numbers import Count, Fraction, Positive, PositiveNumber, Seconds


class Event(BaseModel):
    """One line of events.jsonl. Additional values are kept."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)

    event: str = Field(min_length=1)
    monotonic_ns: Count = Field(description="The monotonic clock when the event was written.")


class Started(Event):
    """The framework is imported."""

    event: Literal["started"]
    import_s: Seconds
    framework_version: str
    versions: dict[str, Any]


class Built(Event):
    """The model is built."""

    event: Literal["built"]
    build_s: Seconds
    parameters: Count
    device: dict[str, Any] = Field(description="As read back from the framework.")


class Compiled(Event):
    """The first step is done."""

    event: Literal["compiled"]
    first_step_s: Seconds
    synchronize_s: Seconds = Field(description="Median cost of synchronizing an idle device.")
    loss: float = Field(description="Of the first step.")


class Disturbance(BaseModel):
    """What else happened during the timed part, by the kernel's counters; null: not readable."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)

    waited_s: Seconds | None = Field(
        description="All threads of the worker: ready to run, without a CPU."
    )
    others_s: float | None = Field(description="CPU time of others on the worker's CPUs.")
    stolen_s: float | None = Field(description="Of the worker's CPUs, by the hypervisor.")
    preemptions: Count = Field(description="Of the worker's threads.")
    periods: Count = Field(description="Of the CPU quota (cgroup).")
    throttled_periods: Count = Field(description="Periods in which the quota was used up.")
    cooled: Count = Field(description="Times that a CPU was slowed down by its temperature.")


class BlockDone(Event):
    """A block of steps is done, in warm-up or after it."""

    event: Literal["warmup", "block"]
    step: Positive = Field(description="Number of steps done so far.")
    steps: Positive = Field(description="Number of steps in this block.")
    duration_s: PositiveNumber
    samples_per_s: PositiveNumber
    loss: float = Field(description="Of the block's last step.")
    loss_wait_s: Seconds = Field(description="How long reading the loss waited after the block.")
    left_s: Seconds = Field(description="Estimated remaining time.")
    disturbed: bool = Field(default=False, description="True: it is not part of the rate.")
    disturbance: Disturbance | None = None


class Warm(Event):
    """Warm-up is over."""

    event: Literal["warm"]
    blocks: Count = Field(description="Number of warm-up blocks.")
    steady: bool = Field(description="False: warm-up was cut short.")


class EpochDone(Event):
    """The evaluation after an epoch."""

    event: Literal["epoch"]
    epoch: Positive
    duration_s: Seconds
    train_loss: float
    train_accuracy: Fraction | None = Field(description="Null where the targets are numbers.")
    test_loss: float
    test_accuracy: Fraction | None
    test_samples: Positive
    test_loss_error: Seconds = Field(description="Standard error of test_loss.")


class Trained(Event):
    """Training is over."""

    event: Literal["trained"]
    steps: Positive = Field(description="Training steps that were requested.")
    optimizer_steps: Count | None = Field(
        description="Steps that the framework counted; null: it does not count."
    )


class ClosingDone(Event):
    """The closing proof is written."""

    event: Literal["closing"]
    step: Positive = Field(description="Number of the first of its steps, from 0.")
    steps: Positive
    optimizer_steps: Count | None = Field(description="Counted before its steps.")
    loss: float = Field(description="Of its last step.")


class Replayed(Event):
    """A draw of mode replay is done."""

    event: Literal["replay"]
    draw: Count
    loss: float


class FirstInference(Event):
    """The first call of the model is done, with its compilation."""

    event: Literal["first_inference"]
    duration_s: Seconds


class Warmed(Event):
    """The model was called until the duration of a call was steady."""

    event: Literal["warmed"]
    calls: Positive
    duration_s: Seconds
    call_s: PositiveNumber = Field(description="Median of the last calls.")
    steady: bool = Field(description="False: warm-up was cut short.")


class Overhead(Event):
    """The same scenario was run with a null model, which returns an array that is ready."""

    event: Literal["overhead"]
    latency_s: PositiveNumber = Field(
        description="Median latency of a query; in scenario offline, mean duration of a call."
    )


class RateTried(Event):
    """Scenario server: a step of the search for the highest rate of queries."""

    event: Literal["rate"]
    rate_per_s: PositiveNumber
    p99_s: PositiveNumber
    holds: bool = Field(description="Whether 99 % of the queries were within the bound.")


class Inferred(Event):
    """The timed queries are answered."""

    event: Literal["inference"]
    scenario: Scenario
    loadgen: str = Field(description="What made the queries: mlcommons-loadgen VERSION, or own.")
    queries: Positive
    samples: Positive
    duration_s: PositiveNumber
    samples_per_s: PositiveNumber
    mean_s: PositiveNumber | None = Field(description="Latency of a query; null: offline.")
    min_s: PositiveNumber | None
    max_s: PositiveNumber | None
    percentiles_s: dict[str, PositiveNumber] = Field(
        description="Latencies by percentile: 50, 90, 95, 97, 99, 99.9; empty: offline."
    )
    early_stopping_s: dict[str, PositiveNumber] = Field(
        description="LoadGen's upper estimates of percentiles 90 and 99, where it makes them."
    )
    rate_per_s: PositiveNumber | None = Field(description="Scenario server: of the queries.")
    disturbance: Disturbance | None = None


class AnswersSaved(Event):
    """Random answers of the timed queries are saved."""

    event: Literal["answers"]
    samples: Positive


class Answered(Event):
    """Mode parity of inference: each sample is answered once."""

    event: Literal["answered"]
    samples: Positive


class Exchanged(Event):
    """The gradients of all ranks were added, without other work."""

    event: Literal["exchanged"]
    bytes: Positive = Field(description="Of the gradients of one rank.")
    duration_s: Seconds = Field(description="Median, of the slowest rank.")


class MemoryPeak(Event):
    """The peak memory of the worker."""

    event: Literal["memory"]
    host_rss_peak_bytes: Count | None = None
    device_peak_bytes: Count | None = None
    device_reserved_bytes: Count | None = None


class ParityStep(Event):
    """A step of mode parity is done."""

    event: Literal["parity"]
    step: Count
    loss: float


class Peak(Event):
    """The highest rate of an operation."""

    event: Literal["peak"]
    operation: Literal["matmul_float32", "matmul_tf32", "matmul_bfloat16", "matmul_float64", "copy"]
    work_per_s: PositiveNumber = Field(
        description="Floating-point operations, or bytes read and written, per second."
    )


class Failed(Event):
    """The worker failed."""

    event: Literal["failed"]
    error_class: str
    message: str
    traceback: str = ""
    rank: Count | None = Field(default=None, description="Of several ranks, the one that failed.")
    unix_s: PositiveNumber | None = Field(
        default=None, description="The time of day, in seconds: ranks on several machines have it."
    )


EVENTS: tuple[type[Event], ...] = (
    Started,
    Built,
    Compiled,
    BlockDone,
    Warm,
    EpochDone,
    Trained,
    Exchanged,
    ClosingDone,
    Replayed,
    FirstInference,
    Warmed,
    Overhead,
    RateTried,
    Inferred,
    AnswersSaved,
    Answered,
    MemoryPeak,
    ParityStep,
    Peak,
    Failed,
)
KINDS = {
    kind: event for event in EVENTS for kind in get_args(event.model_fields["event"].annotation)
}


def model_of(kind: object) -> type[Event]:
    """The schema of a kind of event; for an unknown kind, the part that all events share."""
    return KINDS.get(kind, Event) if isinstance(kind, str) else Event
