"""The worker protocol: `trial.json` in, `events.jsonl` out (docs/protocol.md)."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

SCHEMA_VERSION = 6

Array = NDArray[Any]
Weights = dict[str, Array]


@dataclass(frozen=True)
class Trial:
    """What one worker must do: the fields of `trial.json` (docs/trial.schema.json)."""

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
    precision: str
    optimizer: dict[str, Any]
    device: str
    cpus: list[int]
    threads: int | None  # None: as many as the framework takes by itself
    tf32: bool | None  # None: as the framework has it
    environment: dict[str, str]
    settings: dict[str, Any]
    seed: int
    rank: int
    world_size: int
    rendezvous: str | None
    epochs: int
    steps: int
    closing: bool  # mode train: end with the closing proof
    first_step: int  # mode replay: the step of the order that the state in paths.state is before
    draws: int  # mode replay: how often to do the steps, each time with other dropout masks
    measure: dict[str, float]
    normalize: dict[str, list[float]]
    paths: dict[str, str]

    @staticmethod
    def read(folder: Path) -> Trial:
        """Read `trial.json` in `folder`; raise ValueError where it is of another schema version."""
        values = json.loads((folder / "trial.json").read_text(encoding="utf-8"))
        if values.get("schema_version") != SCHEMA_VERSION:
            raise ValueError(
                f"trial.json has schema version {values.get('schema_version')}, "
                f"this worker speaks {SCHEMA_VERSION}"
            )
        known = {field.name for field in fields(Trial)}
        return Trial(**{key: value for key, value in values.items() if key in known})

    @property
    def layers(self) -> list[dict[str, Any]]:
        """The outer series; in parity, where chance would hide a fault, with no dropout in it."""
        layers: list[dict[str, Any]] = self.architecture["layers"]
        if self.mode == "parity":
            return _without_dropout(layers)
        return layers

    def leaves(self) -> Iterator[dict[str, Any]]:
        """All layers in order, those inside of branches in place of what holds them."""
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
    """All that a training step depends on besides its batch, in canonical form."""

    weights: Weights
    statistics: Weights
    optimizer: dict[str, Weights]  # slot (docs/protocol.md) -> its value for each parameter
    steps: int  # that the optimiser has done


class Session(Protocol):
    """One model on one device: what each module in `frameworks/` provides.

    Batches are numpy arrays in the module's `LAYOUT`: inputs (N, C, H, W), (N, H, W, C) or
    (N, features) in the trial's precision, labels (N,) int32. Weights, gradients and statistics
    are canonical (docs/protocol.md): convolutions (out, in, height, width), dense (out, in).
    """

    def __init__(self, trial: Trial, weights: Weights) -> None: ...

    def put(self, inputs: Any, labels: Any) -> Any:
        """The batch as `train_step` takes it, on its way to the device.

        Given as arrays, or as what the framework's own loader makes.
        """

    def train_step(self, batch: Any) -> Any:
        """Do one optimiser step; return the loss before it, unread, wherever it lies.

        The batch is left as it was: it may come again.
        """

    def synchronize(self) -> None:
        """Return when all the work asked for so far is done."""

    def read(self, loss: Any) -> float:
        """The value of a loss that `train_step` returned."""

    def logits(self, inputs: Array) -> Array:
        """(N, classes), in inference mode."""

    def gradients(self, inputs: Array, labels: Array) -> tuple[Array, Weights]:
        """Logits (N, classes) and gradients of the mean loss over the batch, in training mode.

        Changes neither weights nor statistics.
        """

    def weights(self) -> Weights:
        """A copy of the weights as they are now."""

    def statistics(self) -> Weights:
        """A copy of the running means and variances of the batch norms, as they are now."""

    def optimizer_state(self) -> dict[str, Weights]:
        """A copy of the optimiser's slots (docs/protocol.md), as they are now; none for SGD."""

    def step_count(self) -> int:
        """How many steps the optimiser has done, as the framework itself counts them."""

    def restore(self, state: State) -> None:
        """Continue from this state; only the frameworks of the reference need it."""


class Events:
    """Appends events to `events.jsonl` and mirrors them on what was standard output.

    From here on, whatever a library prints to standard output goes to standard error.
    """

    def __init__(self, results: Path) -> None:
        self._file = (results / "events.jsonl").open("a", encoding="utf-8")
        self._mirror = os.fdopen(os.dup(1), "w", encoding="utf-8")
        sys.stdout.flush()
        os.dup2(2, 1)

    def emit(self, event: str, **values: Any) -> None:
        """Write one event at once; raise BrokenPipeError where nobody listens any more.

        The mirror comes first: it hears even of a disk that is full.
        """
        values = {"event": event, "monotonic_ns": time.monotonic_ns(), **values}
        line = json.dumps(values, allow_nan=False) + "\n"
        for stream in (self._mirror, self._file):
            stream.write(line)
            stream.flush()


def read_weights(trial: Trial) -> Weights:
    """The initial weights by name, from one flat float32 vector in the order of the parameters."""
    return read_flat(Path(trial.paths["weights"]), trial.parameters)


def read_flat(path: Path, named: list[dict[str, Any]]) -> Weights:
    """The tensors that are `named`, from one file that holds them one after the other.

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
