"""Workloads, their optimizers, how a run is measured, and how often it is repeated."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator as After
from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationInfo,
    field_validator,
    model_validator,
)

from suite.errors import nearest
from suite.manifests.losses import Loss
from suite.manifests.strict import Name, Strict
from suite.models import MODELS
from suite.paths import digest

# Where each batch comes from before its step (docs/reference/protocol.md).
Input = Literal["host", "disk", "device", "loader"]
# Of the operands of products (docs/reference/configurations.md). bf16_mixed: bfloat16, all else
# in float32.
Precision = Literal["float32", "bf16_mixed"]
# Of the statistics of batch norm on several ranks: of each rank's slice, or of the whole batch.
BatchNorm = Literal["per_rank", "synchronized"]
# How queries arrive in inference, by the names of MLPerf (docs/how-to/inference.md).
Scenario = Literal["single_stream", "multi_stream", "offline", "server"]
PROOF_DEADLINE_S = 3600.0  # of one worker: the largest models are slow in float64
PROOF_STEPS = 10  # training steps that a certificate compares
# Parts of a training that a framework may lack (docs/reference/optimizers.md).
Recipe = Literal[
    "nesterov",
    "clip_norm",
    "label_smoothing",
    "class_weights",
    "schedule",
    "exempt_vectors",
    "accumulate",
    "ema_decay",
    "lamb",
]
SHOWN_WEIGHTS = 10  # weights of classes in a title, at most
ONE_SAMPLE = ("single_stream", "server")  # scenarios whose calls have one sample
Share = Annotated[float, Field(ge=0, lt=1)]


def _model(name: str) -> str:
    if name not in MODELS:
        raise ValueError(f"unknown model {name!r}; {nearest(name, MODELS)}")
    return name


class Schedule(Strict):
    """The learning rate of each step as a share of the optimizer's.

    The formulas are in docs/reference/optimizers.md.
    """

    shape: Literal["constant", "linear", "cosine", "steps"]  # after the warm-up
    warmup_steps: NonNegativeInt = 0  # the rate rises in equal parts
    total_steps: PositiveInt | None = None  # linear and cosine: with the warm-up
    final_share: Share = 0.0  # linear and cosine: of the rate after the last step
    step_size: PositiveInt | None = None  # steps: how many steps have an equal rate
    gamma: PositiveFloat = 0.1  # steps: the factor between them

    @model_validator(mode="after")
    def _complete(self) -> Self:
        """Each shape has its own numbers."""
        for name, shapes in (("total_steps", ("linear", "cosine")), ("step_size", ("steps",))):
            if (getattr(self, name) is not None) != (self.shape in shapes):
                needs = "needs" if self.shape in shapes else "has no"
                raise ValueError(f"a schedule of shape {self.shape} {needs} {name}")
        if self.shape == "constant" and not self.warmup_steps:
            raise ValueError("a schedule of shape constant needs warmup_steps")
        if self.total_steps is not None and self.total_steps <= self.warmup_steps:
            raise ValueError("total_steps must be more than warmup_steps")
        return self

    @property
    def name(self) -> str:
        """In short, for titles."""
        end = f" to step {self.total_steps}" if self.total_steps else ""
        size = f" of {self.step_size} by {self.gamma:g}" if self.step_size else ""
        final = f" at {self.final_share:g}" if self.final_share else ""
        warmup = f" (warm-up {self.warmup_steps})" if self.warmup_steps else ""
        return f"{self.shape}{size}{end}{final}{warmup}"


class AnyOptimizer(Strict):
    """What every optimizer has; gradients may have a norm of at most `clip_norm`."""

    name: str
    learning_rate: PositiveFloat
    clip_norm: PositiveFloat | None = None  # of all gradients together; None: they stay as they are
    schedule: Schedule | None = None  # None: the rate is constant
    # Of the exponential moving average of the weights, which evaluations take; None: no average.
    ema_decay: Share | None = None


class Sgd(AnyOptimizer):
    name: Literal["sgd"]


class Momentum(AnyOptimizer):
    name: Literal["momentum"]
    momentum: Share = 0.9
    nesterov: bool = False


class Adam(AnyOptimizer):
    name: Literal["adam"]
    beta1: Share = 0.9
    beta2: Share = 0.999
    epsilon: PositiveFloat = 1e-7


class AdamW(Adam):
    name: Literal["adamw"]  # type: ignore[assignment]
    weight_decay: NonNegativeFloat = 0.01
    # Parameters with one axis, such as biases, take the step of Adam.
    exempt_vectors: bool = False


class Lamb(AdamW):
    name: Literal["lamb"]  # type: ignore[assignment]


class RmsProp(AnyOptimizer):
    name: Literal["rmsprop"]
    decay: Share = 0.9
    epsilon: PositiveFloat = 1e-7


# The formulas: docs/reference/optimizers.md.
Optimizer = Annotated[Sgd | Momentum | Adam | AdamW | Lamb | RmsProp, Field(discriminator="name")]


class Measure(Strict):
    """When warm-up ends, and when the timed blocks end."""

    block_s: PositiveFloat = 0.25
    interleaved_block_s: PositiveFloat = 0.1  # of blocks after warm-up, in interleaved runs
    max_warmup_blocks: PositiveInt = 12
    min_measure_s: PositiveFloat = 2
    max_measure_s: PositiveFloat = 5
    relative_error: PositiveFloat = 0.01
    sample_s: NonNegativeFloat = 0.25  # the telemetry's interval; 0: no telemetry
    min_query_s: PositiveFloat = 10  # inference: the queries take at least so long,
    min_queries: PositiveInt = 2000  # and are at least so many,
    max_query_s: PositiveFloat = 30  # unless they take so long
    idle_s: NonNegativeFloat = 1.0  # how long idle power is measured, where power can be read


class WorkloadDefaults(Strict):
    """A workload without its model."""

    dataset: Name
    mode: Literal["train", "infer"] = "train"
    # Of a training step; in inference, of one call of the model.
    batch_size: PositiveInt
    # Micro-batches of a training step, one after the other; the step has the mean of their
    # gradients. They are equal parts of the batch.
    accumulate: PositiveInt = 1
    precision: Precision = "float32"
    loss: Loss = "cross_entropy"  # that of the dataset's targets
    label_smoothing: Share = 0.0  # the share of all classes in the targets of cross-entropy
    class_weights: tuple[PositiveFloat, ...] | None = None  # of cross-entropy; None: all alike
    input: Input = "host"
    batch_norm: BatchNorm = "per_rank"
    optimizer: Optimizer | None = None  # in inference, none
    scenario: Scenario | None = None  # in training, none
    # In inference, this many samples from the start of the test split; all are proven.
    query_samples: PositiveInt | None = None
    latency_bound_s: PositiveFloat | None = None  # of 99 % of the queries of scenario server
    # For the certificate's steps, where rounding errors explode at the optimizer's own rate.
    proof_learning_rate: PositiveFloat | None = None
    # The samples of an epoch, where it is a part of the training split.
    epoch_samples: PositiveInt | None = None
    # Of the user's weights, from which the work starts; None: those of dlsuite.
    weights_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    # Whole epochs of the first run of each trial. The other runs end when their rate is certain.
    epochs: NonNegativeInt = 1

    @model_validator(mode="before")
    @classmethod
    def _no_epochs_of_inference(cls, values: Any) -> Any:
        infers = isinstance(values, dict) and values.get("mode") == "infer"
        return {"epochs": 0, **values} if infers else values

    @model_validator(mode="after")
    def _complete(self) -> Self:
        """Training has an optimizer, inference a scenario; neither has the other's fields."""
        infers = self.mode == "infer"
        needs = {
            "optimizer": not infers,
            "scenario": infers,
            "query_samples": infers,
            "latency_bound_s": self.scenario == "server",
        }
        for name, needed in needs.items():
            if needed and getattr(self, name) is None:
                raise ValueError(f"{name} is missing, mode is {self.mode}")
            if not needed and getattr(self, name) is not None:
                raise ValueError(f"{name} has no meaning here, mode is {self.mode}")
        if infers and (self.epochs or self.precision != "float32" or self.input != "host"):
            raise ValueError("mode infer has epochs 0, precision float32 and input host")
        if self.accumulate > 1 and infers:
            raise ValueError("accumulate is of training")
        if self.batch_size % self.accumulate:
            raise ValueError(
                f"batch_size {self.batch_size} is not divisible by accumulate {self.accumulate}"
            )
        if self.label_smoothing and (infers or self.loss != "cross_entropy"):
            raise ValueError("label_smoothing is of training with cross_entropy")
        if self.class_weights and (infers or self.loss != "cross_entropy"):
            raise ValueError("class_weights are of training with cross_entropy")
        if self.class_weights and self.label_smoothing:
            raise ValueError("class_weights and label_smoothing exclude each other")
        if self.scenario in ONE_SAMPLE and self.batch_size != 1:
            raise ValueError(f"scenario {self.scenario} has batch_size 1")
        return self


class Workload(WorkloadDefaults):
    """The work, identical for all frameworks.

    Its model may be unknown here: records of another machine are read too.
    """

    model: Name

    @property
    def way(self) -> str:
        """The optimizer with its learning rate and its options, or the scenario of inference."""
        if self.optimizer:
            return " ".join(
                [f"{self.optimizer.name} {self.optimizer.learning_rate:g}", *self._options()]
            )
        bound = f" within {1000 * self.latency_bound_s:g} ms" if self.latency_bound_s else ""
        return f"{self.scenario}{bound}"

    @property
    def recipe(self) -> set[Recipe]:
        """What its training has beside the loss and the optimizer."""
        nesterov = isinstance(self.optimizer, Momentum) and self.optimizer.nesterov
        clipped = self.optimizer is not None and self.optimizer.clip_norm is not None
        has = {
            "nesterov": nesterov,
            "clip_norm": clipped,
            "label_smoothing": self.label_smoothing > 0,
            "class_weights": self.class_weights is not None,
            "schedule": self.optimizer is not None and self.optimizer.schedule is not None,
            "exempt_vectors": isinstance(self.optimizer, AdamW) and self.optimizer.exempt_vectors,
            "accumulate": self.accumulate > 1,
            "ema_decay": self.optimizer is not None and self.optimizer.ema_decay is not None,
            "lamb": isinstance(self.optimizer, Lamb),
        }
        return {name for name in get_args(Recipe) if has[name]}

    def _options(self) -> list[str]:
        assert self.optimizer is not None  # of training
        clip, smoothing = self.optimizer.clip_norm, self.label_smoothing
        schedule, decay = self.optimizer.schedule, self.optimizer.ema_decay
        return [
            *([schedule.name] if schedule else []),
            *(["vectors do not decay"] if "exempt_vectors" in self.recipe else []),
            *(["nesterov"] if "nesterov" in self.recipe else []),
            *([f"clipped to {clip:g}"] if clip is not None else []),
            *([f"averaged by {decay:g}"] if decay is not None else []),
            *([f"labels smoothed by {smoothing:g}"] if smoothing else []),
            *([f"class weights {self._class_weights}"] if self.class_weights else []),
            *([f"in {self.accumulate} micro-batches"] if self.accumulate > 1 else []),
        ]

    @property
    def micro_batch_size(self) -> int:
        """The samples that pass through the model together, on all devices."""
        return self.batch_size // self.accumulate

    @property
    def _class_weights(self) -> str:
        """The weights of the classes in short: all of a few, else their digest."""
        weights = [f"{each:g}" for each in self.class_weights or ()]
        return "/".join(weights) if len(weights) <= SHOWN_WEIGHTS else digest(weights)[:8]

    @property
    def proof_optimizer(self) -> Optimizer | None:
        """The optimizer with the learning rate of the certificate's steps."""
        if self.optimizer is None:
            return None
        rate = self.proof_learning_rate or self.optimizer.learning_rate
        return self.optimizer.model_copy(update={"learning_rate": rate})


class SuiteWorkload(Workload):
    """A workload as a suite states it: also at larger batch sizes, with its proof and its time."""

    model: Annotated[Name, After(_model)]
    max_batch_size: PositiveInt | None = None  # also at each doubled batch size up to this one
    larger_batch_sizes: tuple[PositiveInt, ...] = ()  # instead: also at these, in this order
    proof_steps: PositiveInt | None = None  # instead of the suite's
    tracks: tuple[Name, ...] = ()  # instead of the suite's
    ranks: PositiveInt | None = None  # on so many devices; left out where there are fewer
    trial_budget_s: PositiveFloat | None = None  # instead of the suite's

    @model_validator(mode="after")
    def _one_series(self) -> Self:
        """The batch sizes increase, and are given in one way."""
        if self.larger_batch_sizes and self.max_batch_size:
            raise ValueError("larger_batch_sizes and max_batch_size exclude each other")
        sizes = (self.batch_size, *self.larger_batch_sizes)
        if list(sizes) != sorted(set(sizes)):
            raise ValueError("larger_batch_sizes do not increase from batch_size")
        return self

    def at(self, **changes: object) -> Workload:
        """The workload without these additions, with other values of its fields."""
        values = {name: getattr(self, name) for name in Workload.model_fields}
        return Workload.model_construct(**values | changes)

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        """The batch size, and the larger ones: as listed, or doubled up to `max_batch_size`."""
        sizes = [self.batch_size, *self.larger_batch_sizes]
        while sizes[-1] * 2 <= (self.max_batch_size or 0):
            sizes.append(sizes[-1] * 2)
        return tuple(sizes)


class Repeats(Strict):
    """How many runs each trial gets: more than `at_least` only while its rate is uncertain."""

    at_least: PositiveInt
    at_most: PositiveInt
    spread: PositiveFloat = 0.02  # stop when half the interval is this share of the median or less
    budget_s: PositiveFloat | None = None  # of all runs; after it no trial exceeds at_least
    # Of all runs of one trial with their closing proof. No further run starts that would exceed it,
    # even where there are fewer than at_least.
    trial_budget_s: PositiveFloat | None = None

    @field_validator("at_most")
    @classmethod
    def _in_order(cls, value: int, others: ValidationInfo) -> int:
        if value < others.data.get("at_least", value):
            raise ValueError(f"{value} is less than at_least")
        return value
