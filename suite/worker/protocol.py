"""The worker protocol: `trial.json` in, `events.jsonl` out (docs/reference/protocol.md)."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

SCHEMA_VERSION = 12
# In one call of a variant that does several. As many batches are resident with input `device`, so
# that every call takes the same ones.
STEPS_PER_CALL = 8
# The bits of a significand, of which the first is implicit, by the precision of a reference.
SIMULATED_BITS = {"bf16_simulated": 8, "tf32_simulated": 11}

# The arrays beside the weights that each optimizer keeps, in the order of its formula.
SLOTS = {
    "sgd": (),
    "momentum": ("velocity",),
    "adam": ("first_moment", "second_moment"),
    "adamw": ("first_moment", "second_moment"),
    "lamb": ("first_moment", "second_moment"),
    "rmsprop": ("second_moment",),
}
AVERAGE = "average"  # the slot of the averaged weights

Array = NDArray[Any]
Weights = dict[str, Array]


@dataclass(frozen=True)
class Trial:
    """The task of one worker: the fields of `trial.json` (docs/reference/trial.schema.json)."""

    schema_version: int
    trial_id: str
    repeat: int
    framework: str
    variant: str
    track: str
    mode: str
    architecture: dict[str, Any]
    parameters: list[dict[str, Any]]
    statistics: list[dict[str, Any]]
    input: str
    batch_size: int
    accumulate: int  # micro-batches in the batch of a training step
    scenario: str | None  # of inference; None: training
    query_samples: int | None  # of inference, from the start of the test split
    latency_bound_s: float | None  # scenario server
    precision: str
    loss: str  # docs/reference/protocol.md, Losses
    label_smoothing: float
    class_weights: list[float] | None  # of cross-entropy; None: all classes alike
    optimizer: dict[str, Any]  # None in inference
    device: str
    cpus: list[int]
    threads: int | None  # None: the framework's own choice
    tf32: bool | None  # None: the framework's default
    environment: dict[str, str]
    settings: dict[str, Any]
    seed: int
    world_size: int  # the number of ranks on all nodes
    nodes: int
    node: int  # the number of this one
    rendezvous: str | None
    slices: int  # of a batch, each with its own statistics of batch norm
    epochs: int
    steps: int
    closing: bool  # mode train: end with the closing proof
    first_step: int  # mode replay: the step of the order that follows the state in paths.state
    draws: int  # modes replay and parity: repetitions of the steps
    precisions: list[str]  # mode peak: the precisions of the matrix products
    measure: dict[str, float]
    normalize: dict[str, list[float]]
    paths: dict[str, str]
    # Of one rank; not in the file.
    rank: int = 0
    addresses: tuple[str, ...] = ()  # a free host:port of each rank

    @staticmethod
    def read(folder: Path) -> Trial:
        """Read `trial.json` in `folder`; raise ValueError where its schema version is another."""
        values = json.loads((folder / "trial.json").read_text(encoding="utf-8"))
        if values.get("schema_version") != SCHEMA_VERSION:
            raise ValueError(
                f"trial.json has schema version {values.get('schema_version')}, "
                f"this worker needs {SCHEMA_VERSION}"
            )
        known = {field.name for field in fields(Trial) if field.default is MISSING}
        return Trial(**{key: value for key, value in values.items() if key in known})

    @property
    def ranks_per_node(self) -> int:
        """The number of ranks on each node."""
        return self.world_size // self.nodes

    @property
    def rank_batch_size(self) -> int:
        """The samples of a batch that one rank takes."""
        return self.batch_size // self.world_size

    @property
    def micro_batch_size(self) -> int:
        """The samples of a batch that pass through the model together."""
        return self.batch_size // self.accumulate

    @property
    def slice_size(self) -> int:
        """The samples of a batch that share the statistics of batch norm."""
        return self.micro_batch_size // self.slices

    @property
    def own_slices(self) -> int:
        """The slices that this rank computes; 0: a slice is the whole batch of several ranks."""
        return self.slices // self.world_size

    @property
    def dtype(self) -> str:
        """The type of weights, losses and optimizer: float32, or float64 in a reference."""
        of_reference = self.precision == "float64" or self.simulated_bits
        return "float64" if of_reference else "float32"

    @property
    def mixed(self) -> bool:
        """Whether the operands of products are rounded to bfloat16 (docs/explanation/proof.md)."""
        return self.precision == "bf16_mixed"

    @property
    def simulated_bits(self) -> int | None:
        """The bits to which a reference rounds in float64, as products do; None: it does not."""
        return SIMULATED_BITS.get(self.precision)

    @property
    def layers(self) -> list[dict[str, Any]]:
        """The outer series of layers; in mode parity of training without dropout.

        Dropout is random. In inference the framework itself must leave it out.
        """
        layers: list[dict[str, Any]] = self.architecture["layers"]
        if self.mode == "parity" and self.scenario is None:
            return _without_dropout(layers)
        return layers

    @property
    def ema_decay(self) -> float | None:
        """The decay of the average of the weights; None: they are not averaged."""
        decay: float | None = self.optimizer.get("ema_decay")
        return decay

    @property
    def exempt(self) -> set[str]:
        """The parameters that do not decay; with LAMB they take the step of Adam."""
        if not self.optimizer.get("exempt_vectors"):
            return set()
        return {each["name"] for each in self.parameters if len(each["shape"]) == 1}

    def leaves(self) -> Iterator[dict[str, Any]]:
        """All layers in order; the layers inside branches replace the layer that holds them."""
        return _leaves(self.layers)


def _leaves(layers: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for layer in layers:
        if "branches" not in layer:
            yield layer
        for branch in layer.get("branches", ()):
            yield from _leaves(branch)


def _without_dropout(layers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    kept = [dict(layer) for layer in layers if layer["kind"] != "dropout"]
    for layer in kept:
        if "branches" in layer:
            layer["branches"] = [_without_dropout(branch) for branch in layer["branches"]]
    return kept


@dataclass(frozen=True)
class State:
    """Everything that a training step depends on, except its batch, in canonical form."""

    weights: Weights
    statistics: Weights
    optimizer: dict[
        str, Weights
    ]  # slot (docs/reference/protocol.md) -> its value for each parameter
    steps: int  # the number of steps that the optimizer has done


class Predictor(Protocol):
    """One model in its inference form, implemented by the `inference` module of each framework.

    Weights and statistics are canonical (docs/reference/protocol.md). Batch norm takes the
    statistics, and dropout is off.
    """

    def __init__(self, trial: Trial, weights: Weights, statistics: Weights) -> None: ...

    def predict(self, inputs: Array) -> Array:
        """The logits (N, classes) in host memory, contiguous, in the trial's dtype.

        `inputs` (N, ...) are in host memory, in the trial's dtype and the module's `LAYOUT`; N is
        always the trial's batch size.
        """


class Session(Protocol):
    """One model on one device, implemented by the `session` module of each framework.

    Batches are numpy arrays in the module's `LAYOUT`: inputs (N, C, H, W), (N, H, W, C) or
    (N, features) in the trial's dtype, labels (N,) int32, or of numbers (N, outputs) in the trial's
    dtype. A batch of text is (N, length) int32, as are its labels; then logits are
    (N, length, classes). Of several ranks, each has its slice of every batch, and the gradients are
    the means over the ranks. Weights, gradients and statistics are canonical
    (docs/reference/protocol.md): convolutions (out, in, height, width), dense (out, in).

    A variant that does several steps in one call also implements `Multistep`.
    """

    def __init__(self, trial: Trial, weights: Weights) -> None: ...

    def put(self, inputs: Any, labels: Any) -> Any:
        """The batch in the form that `train_step` takes, with its transfer to the device started.

        `inputs` and `labels` are arrays, or the results of the framework's own loader.
        """

    def train_step(self, batch: Any) -> Any:
        """Do one optimizer step; return the loss before it, without reading it from the device.

        The batch must stay unchanged: it may be used again. With `accumulate` above 1 it is divided
        into so many micro-batches in their order. The step has the mean of their gradients, the
        loss is the mean of their losses, and batch norms take and change their statistics in each.
        """

    def synchronize(self) -> None:
        """Return when all work submitted so far is done."""

    def read(self, loss: Any) -> float:
        """The value of a loss that `train_step` returned."""

    def logits(self, inputs: Array) -> Array:
        """The logits (N, classes), in inference mode; with `ema_decay` of the averaged weights."""

    def gradients(self, inputs: Array, labels: Array) -> tuple[Array, Weights]:
        """The logits (N, classes) and the gradients of the batch's mean loss, in training mode.

        Weights and statistics do not change. The batch is a micro-batch.
        """

    def weights(self) -> Weights:
        """A copy of the present weights."""

    def statistics(self) -> Weights:
        """A copy of the present running means and variances of the batch norms."""

    def optimizer_state(self) -> dict[str, Weights]:
        """A copy of the present slots of the optimizer; none for SGD.

        docs/reference/protocol.md names them. With `ema_decay` the slot AVERAGE is one of them.
        """

    def step_count(self) -> int:
        """The number of steps that the optimizer has done, as the framework itself counts them."""

    def restore(self, state: State) -> None:
        """Continue from `state`; only the frameworks of the reference implement it."""


class Distributed(Session, Protocol):
    """A session of a trial of several ranks."""

    def exchange(self, values: Array) -> Callable[[], None]:
        """A function that adds the values of all ranks as gradients are added, and waits for it.

        `values` (n,) float32 has as many as the model has parameters.
        """


class Multistep(Session, Protocol):
    """A session whose timed function does `steps_per_call` steps in one call, if that is above 1.

    `train_step` then runs the same program on a stack of one batch.
    """

    steps_per_call: int

    def train_steps(self, batches: Any) -> Any:
        """Do one step on each batch in order; return the loss of the last as `train_step` does.

        `batches` is what `put` returns for a stack: inputs (steps, N, ...) and labels (steps, N).
        """


class Events:
    """Appends events to `events.jsonl`, and writes those of rank 0 to standard output too.

    From now on, output that libraries print to standard output goes to standard error.
    """

    def __init__(self, results: Path, rank: int = 0) -> None:
        file = (results / "events.jsonl").open("a", encoding="utf-8")
        mirror = os.fdopen(os.dup(1), "w", encoding="utf-8")
        # Standard output comes first, so that it also gets the events for which the disk is full.
        self._streams = [file] if rank else [mirror, file]
        sys.stdout.flush()
        os.dup2(2, 1)

    def emit(self, event: str, **values: Any) -> None:
        """Write one event at once; raise BrokenPipeError where standard output has been closed."""
        values = {"event": event, "monotonic_ns": time.monotonic_ns(), **values}
        line = json.dumps(values, allow_nan=False) + "\n"
        for stream in self._streams:
            stream.write(line)
            stream.flush()


def steps_per_call(session: Session) -> int:
    """The number of steps in one call of the function that is timed."""
    return int(getattr(session, "steps_per_call", 1))


def in_child(session: Session) -> bool:
    """Whether a child process computes for the session, as a class attribute of it says."""
    return bool(getattr(session, "in_child", False))


def read_weights(trial: Trial) -> Weights:
    """The weights in `paths.weights` by name: one flat vector, in the order of the parameters."""
    return read_flat(Path(trial.paths["weights"]), trial.parameters)


def read_statistics(trial: Trial) -> Weights:
    """The running means and variances in `paths.statistics` by name, as `read_weights`."""
    return read_flat(Path(trial.paths["statistics"]), trial.statistics)


def read_flat(path: Path, named: list[dict[str, Any]]) -> Weights:
    """The `named` tensors, from a file that holds their values one after the other.

    Raise ValueError where the file has another number of values.
    """
    flat = np.load(path)
    stops = np.cumsum([np.prod(each["shape"]) for each in named], dtype=int)
    needed = stops[-1] if len(stops) else 0
    if flat.size != needed:
        raise ValueError(f"{path} holds {flat.size} values, the parameters need {needed}")
    return {
        each["name"]: part.reshape(each["shape"])
        for each, part in zip(named, np.split(flat, stops[:-1]))
    }
