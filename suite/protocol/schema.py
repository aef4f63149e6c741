"""The schemas of trial.json and of the events: the one source of docs/reference/*.schema.json.

`python -m suite.protocol.schema` writes the two files anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model

from suite.manifests.losses import Loss
from suite.manifests.workloads import Input, Measure, Optimizer, Scenario
from suite.models.branches import Branches
from suite.models.layer import Layer
from suite.paths import REPOSITORY
from suite.worker.protocol import SCHEMA_VERSION

JSON_SCHEMA = "https://json-schema.org/draft/2020-12/schema"

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(ge=0)]
PositiveNumber = Annotated[float, Field(gt=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Shape = tuple[Positive, ...]
Precision = Literal["float32", "tf32", "bfloat16", "float64"]
Mode = Literal["train", "infer", "parity", "replay", "peak"]


class _Part(BaseModel):
    """A part of trial.json: unknown keys are errors."""

    model_config = ConfigDict(defer_build=True, extra="forbid", allow_inf_nan=False)


def _layer_classes(base: type[Layer] = Layer) -> Iterator[type[Layer]]:
    """All kinds of layers: the subclasses that name their kind."""
    for each in base.__subclasses__():
        if "kind" in vars(each):
            yield each
        yield from _layer_classes(each)


def _layer_model(layer: type[Layer]) -> type[BaseModel]:
    """The model of a kind of layer, made from the fields of its class."""
    types = get_type_hints(layer)
    own: dict[str, Any] = {each.name: (types[each.name], ...) for each in fields(layer)}
    if issubclass(layer, Branches):
        own["branches"] = (list[list["LayerJson"]], Field(min_length=2))
    return create_model(
        layer.__name__,
        __base__=_Part,
        __module__=__name__,
        __doc__=layer.__doc__,
        **{"kind": (Literal[layer.kind], ...), "input_shape": (Shape, ...), **own},
    )


if TYPE_CHECKING:
    LayerJson = dict[str, Any]
else:
    LayerJson = Annotated[
        reduce(or_, map(_layer_model, sorted(_layer_classes(), key=lambda each: each.kind))),
        Field(discriminator="kind"),
    ]


class ArchitectureJson(_Part):
    """A model as a list of layers; `branches` of a layer hold lists of layers again."""

    name: str
    input_shape: Shape
    classes: Positive
    layers: list[LayerJson] = Field(min_length=1)


class NamedShape(_Part):
    """A tensor of the model, in canonical layout (docs/reference/protocol.md)."""

    name: str
    shape: Shape


class Normalization(_Part):
    """Per channel: (byte / 255 - mean) / std."""

    mean: list[float]
    std: list[PositiveNumber]


class Paths(_Part):
    """Files and folders as the worker sees them."""

    data: str
    weights: str
    statistics: str
    order: str
    results: str
    images: str | None = Field(default=None, description="Only with input loader.")
    interleaving: str | None = Field(default=None, description="Only in interleaved runs.")
    state: str | None = Field(
        default=None, description="Only in mode replay, and in a reference in mode parity."
    )


class TrialFile(_Part):
    """trial.json: the task of one worker."""

    schema_version: Literal[SCHEMA_VERSION]  # type: ignore[valid-type]
    trial_id: str
    repeat: Count
    framework: str
    variant: str
    track: str
    mode: Mode
    architecture: ArchitectureJson
    parameters: list[NamedShape] = Field(description="In the order of weights.npy.")
    statistics: list[NamedShape] = Field(
        description="Running means and variances of batch norms: <layer>.mean, <layer>.variance."
    )
    input: Input = Field(
        description="Where each batch comes from: disk (read from the mapped file), host (gathered "
        "from memory), device (the first batches, repeatedly), loader (the framework's own loader)."
    )
    batch_size: Positive = Field(
        description="Samples of a training step; in inference, of one call of the model."
    )
    scenario: Scenario | None = Field(
        description="Inference: how queries arrive (docs/how-to/inference.md); null: training."
    )
    query_samples: Positive | None = Field(
        description="Inference: the queries take this many samples, from the start of the test "
        "split; null: training."
    )
    latency_bound_s: PositiveNumber | None = Field(
        description="Scenario server: of 99 % of the queries; otherwise null."
    )
    precision: Literal["float32", "float64", "bf16_mixed", "bf16_simulated", "tf32_simulated"]
    loss: Loss = Field(description="docs/reference/protocol.md, Losses.")
    label_smoothing: Fraction = Field(
        description="Of cross_entropy: docs/reference/protocol.md, Losses."
    )
    optimizer: Optimizer | None = Field(
        description="The formulas are in docs/reference/optimizers.md. Inference has none."
    )
    device: str
    cpus: list[Count] = Field(
        min_length=1,
        description="The logical CPUs to run on; each rank of the node takes an equal part.",
    )
    threads: Positive | None = Field(description="Of a rank; null: the framework's default.")
    tf32: bool | None = Field(
        description="Whether a GPU may multiply float32 in TF32; null: the framework's default."
    )
    environment: dict[str, str] = Field(
        description="Variables that are set before the worker starts, for information."
    )
    settings: dict[str, bool | int | str] = Field(
        description="The track's settings for this framework; a worker refuses unknown ones."
    )
    seed: int
    world_size: Positive = Field(description="Number of ranks, processes with a device each.")
    nodes: Positive = Field(description="Number of machines, with as many ranks on each.")
    node: Count = Field(
        description="Number of this machine; its first rank is the next after "
        "those of the machines before it."
    )
    rendezvous: str | None = Field(
        description="host:port at which rank 0 waits for the others; null with one rank, or where "
        "a launcher's variables give it."
    )
    slices: Positive = Field(
        description="Equal slices of a batch, each with its own statistics of batch norm."
    )
    epochs: Count = Field(description="Mode train: whole epochs; 0: stop when the rate is known.")
    steps: Count = Field(description="Modes parity and replay.")
    closing: bool = Field(description="Mode train: end with the closing proof.")
    first_step: Count = Field(description="Mode replay: number of the first step, from 0.")
    draws: Positive = Field(
        description="Mode replay: how often to do the steps, with other dropout masks each time. "
        "A reference in mode parity: how often, from other perturbed weights each time."
    )
    precisions: list[Precision] = Field(description="Mode peak: precisions of matrix products.")
    measure: Measure
    normalize: Normalization
    paths: Paths


class _Event(BaseModel):
    """One line of events.jsonl. Additional values are kept."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)

    event: str = Field(min_length=1)
    monotonic_ns: Count = Field(description="The monotonic clock when the event was written.")


class Started(_Event):
    """The framework is imported."""

    event: Literal["started"]
    import_s: Seconds
    framework_version: str
    versions: dict[str, Any]


class Built(_Event):
    """The model is built."""

    event: Literal["built"]
    build_s: Seconds
    parameters: Count
    device: dict[str, Any] = Field(description="As read back from the framework.")


class Compiled(_Event):
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


class BlockDone(_Event):
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


class Warm(_Event):
    """Warm-up is over."""

    event: Literal["warm"]
    blocks: Count = Field(description="Number of warm-up blocks.")
    steady: bool = Field(description="False: warm-up was cut short.")


class EpochDone(_Event):
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


class Trained(_Event):
    """Training is over."""

    event: Literal["trained"]
    steps: Positive = Field(description="Training steps that were requested.")
    optimizer_steps: Count | None = Field(
        description="Steps that the framework counted; null: it does not count."
    )


class ClosingDone(_Event):
    """The closing proof is written."""

    event: Literal["closing"]
    step: Positive = Field(description="Number of the first of its steps, from 0.")
    steps: Positive
    optimizer_steps: Count | None = Field(description="Counted before its steps.")
    loss: float = Field(description="Of its last step.")


class Replayed(_Event):
    """A draw of mode replay is done."""

    event: Literal["replay"]
    draw: Count
    loss: float


class FirstInference(_Event):
    """The first call of the model is done, with its compilation."""

    event: Literal["first_inference"]
    duration_s: Seconds


class Warmed(_Event):
    """The model was called until the duration of a call was steady."""

    event: Literal["warmed"]
    calls: Positive
    duration_s: Seconds
    call_s: PositiveNumber = Field(description="Median of the last calls.")
    steady: bool = Field(description="False: warm-up was cut short.")


class Overhead(_Event):
    """The same scenario was run with a null model, which returns an array that is ready."""

    event: Literal["overhead"]
    latency_s: PositiveNumber = Field(
        description="Median latency of a query; in scenario offline, mean duration of a call."
    )


class RateTried(_Event):
    """Scenario server: a step of the search for the highest rate of queries."""

    event: Literal["rate"]
    rate_per_s: PositiveNumber
    p99_s: PositiveNumber
    holds: bool = Field(description="Whether 99 % of the queries were within the bound.")


class Inferred(_Event):
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


class AnswersSaved(_Event):
    """Random answers of the timed queries are saved."""

    event: Literal["answers"]
    samples: Positive


class Answered(_Event):
    """Mode parity of inference: each sample is answered once."""

    event: Literal["answered"]
    samples: Positive


class Exchanged(_Event):
    """The gradients of all ranks were added, without other work."""

    event: Literal["exchanged"]
    bytes: Positive = Field(description="Of the gradients of one rank.")
    duration_s: Seconds = Field(description="Median, of the slowest rank.")


class MemoryPeak(_Event):
    """The peak memory of the worker."""

    event: Literal["memory"]
    host_rss_peak_bytes: Count | None = None
    device_peak_bytes: Count | None = None
    device_reserved_bytes: Count | None = None


class ParityStep(_Event):
    """A step of mode parity is done."""

    event: Literal["parity"]
    step: Count
    loss: float


class Peak(_Event):
    """The highest rate of an operation."""

    event: Literal["peak"]
    operation: Literal["matmul_float32", "matmul_tf32", "matmul_bfloat16", "copy"]
    work_per_s: PositiveNumber = Field(
        description="Floating-point operations, or bytes read and written, per second."
    )


class Failed(_Event):
    """The worker failed."""

    event: Literal["failed"]
    error_class: str
    message: str
    traceback: str = ""
    rank: Count | None = Field(default=None, description="Of several ranks, the one that failed.")
    unix_s: PositiveNumber | None = Field(
        default=None, description="The time of day, in seconds: ranks on several machines have it."
    )


EVENTS: tuple[type[_Event], ...] = (
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


def model_of(kind: object) -> type[_Event]:
    """The schema of a kind of event; for an unknown kind, the part that all events share."""
    return KINDS.get(kind, _Event) if isinstance(kind, str) else _Event


def documents() -> dict[str, str]:
    """The JSON schemas in docs/reference/, by file name."""
    trial = TrialFile.model_json_schema()
    event = TypeAdapter[Any](reduce(or_, EVENTS)).json_schema()
    unknown: dict[str, Any] = _Event.model_json_schema()
    unknown["properties"]["event"]["not"] = {"enum": sorted(KINDS)}
    event["anyOf"].append(unknown)
    titles = {
        "trial.schema.json": (f"trial.json, schema version {SCHEMA_VERSION}", trial),
        "events.schema.json": (
            f"A line of events.jsonl, schema version {SCHEMA_VERSION}; unknown kinds are kept",
            event,
        ),
    }
    return {
        name: json.dumps({"$schema": JSON_SCHEMA, **schema, "title": title}, indent=1) + "\n"
        for name, (title, schema) in titles.items()
    }


if __name__ == "__main__":
    for name, text in documents().items():
        (REPOSITORY / "docs" / "reference" / name).write_text(text, encoding="utf-8")
