"""Batches of the shared data format, in one fixed order for every framework.

On disk: `<split>_inputs.npy`, images (N, C, H, W) uint8 or float32, rows (N, features) float32,
tokens (N, length) int32, and `<split>_labels.npy`, classes (N,) int32 or numbers (N, outputs)
float32. Of a text: `<split>_tokens.npy` (tokens,) uint8.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from .frameworks import load_loader
from .protocol import STEPS_PER_CALL, Array, Session, Trial, steps_per_call

# Input `device`: the number of batches on the device, used in turn.
DEVICE_BATCHES = STEPS_PER_CALL
# A loader crops a random part of each photograph, and mirrors it at random. The part has this share
# of the area, and this ratio of width to height (Szegedy et al. 2015; all frameworks' own examples
# use the same values).
AREA = (0.08, 1.0)
RATIO = (3 / 4, 4 / 3)
ATTEMPTS = 10  # to draw a part that fits into the photograph
# Samples that are normalized at a time. Eight bytes of index for each value then fit into a cache.
NORMALIZED_SAMPLES = 64


class Split:
    """A split, memory-mapped from its file; `take` computes the inputs of a batch."""

    def __init__(self, trial: Trial, split: str, layout: str) -> None:
        folder = Path(trial.paths["data"])
        if (folder / f"{split}_tokens.npy").exists():
            self._raw, self.labels = _sequences(trial, folder / f"{split}_tokens.npy")
        else:
            self._raw = np.load(folder / f"{split}_inputs.npy", mmap_mode="r")
            labels = np.load(folder / f"{split}_labels.npy")
            self.labels = labels.astype(trial.dtype) if labels.dtype.kind == "f" else labels
        self._channels_last = layout == "NHWC" and self._raw.ndim == 4
        self._dtype = trial.dtype
        self._in_memory: Array | None = None  # all inputs, after `into_memory`
        self._scale = list(zip(trial.normalize["mean"], trial.normalize["std"]))
        # One value for each possible byte: all frameworks get the same float for the same pixel.
        self._values = np.array(
            [((np.arange(256) / 255 - mean) / std) for mean, std in self._scale], trial.dtype
        )

    def into_memory(self) -> None:
        """Compute all inputs now; `take` then only gathers them."""
        self._in_memory = self._convert(self._raw)

    def take(self, chosen: Array, mode: Literal["raise", "clip"] = "raise") -> tuple[Array, Array]:
        """The chosen samples: inputs in the trial's dtype and layout, and their labels.

        Labels are int32, or numbers in the trial's dtype. Tokens are int32.
        """
        labels = self.labels.take(chosen, axis=0, mode=mode)
        if self._in_memory is not None:
            return self._in_memory.take(chosen, axis=0, mode=mode), labels
        return self._convert(self._raw.take(chosen, axis=0, mode=mode)), labels

    def _convert(self, raw: Array) -> Array:
        """Normalize raw values, in the trial's dtype and layout."""
        if not self._scale:
            return raw  # tokens
        if raw.dtype != np.uint8:
            mean, std = self._scale[0]
            values = ((raw.astype(np.float64) - mean) / std).astype(self._dtype)
            return (
                np.ascontiguousarray(np.moveaxis(values, 1, -1)) if self._channels_last else values
            )
        axis = raw.ndim - 1 if self._channels_last else 1
        inputs = np.moveaxis(np.empty(np.moveaxis(raw, 1, axis).shape, self._dtype), axis, 1)
        for first in range(0, len(raw), NORMALIZED_SAMPLES):
            part = slice(first, first + NORMALIZED_SAMPLES)
            for channel, values in enumerate(self._values):
                inputs[part, channel] = values[raw[part, channel]]
        return np.moveaxis(inputs, 1, axis)


def _sequences(trial: Trial, path: Path) -> tuple[Array, Array]:
    """The tokens in a file as sequences (N, length) int32, and the token after each of them."""
    tokens = np.load(path).astype(np.int32)
    (length,) = trial.architecture["input_shape"]
    end = (len(tokens) - 1) // length * length
    return tokens[:end].reshape(-1, length), tokens[1 : end + 1].reshape(-1, length)


class Batches:
    """The training split as an endless series of equal batches in the order of `order.npy`.

    `order.npy` (epochs, N) holds one permutation for each epoch. An epoch has ceil(N / batch size)
    steps. Its last batch is filled from the beginning of the epoch, as in Caffe's data layer, so
    no framework compiles for a second batch size. Of several ranks, each takes one slice of every
    batch.
    """

    def __init__(self, trial: Trial, layout: str) -> None:
        self.split = Split(trial, "train", layout)
        order = np.load(trial.paths["order"])
        self.steps_per_epoch = -(-order.shape[1] // trial.batch_size)
        filled = np.arange(self.steps_per_epoch * trial.batch_size)
        chosen = order.take(filled, axis=1, mode="wrap").reshape(
            len(order), self.steps_per_epoch, trial.batch_size
        )
        first = trial.rank * trial.rank_batch_size
        self._chosen = chosen[:, :, first : first + trial.rank_batch_size]

    def at(self, step: int) -> tuple[Array, Array]:
        """The inputs and labels of batch `step` (from 0) of the order."""
        return self.split.take(self._samples(step))

    def stack(self, numbers: Sequence[int]) -> tuple[Array, Array]:
        """Batches by number, as one stack: inputs (steps, N, ...) and labels (steps, N, ...)."""
        chosen = np.concatenate([self._samples(number) for number in numbers])
        inputs, labels = self.split.take(chosen)
        shape = len(numbers), len(chosen) // len(numbers)
        return inputs.reshape(*shape, *inputs.shape[1:]), labels.reshape(*shape, *labels.shape[1:])

    def _samples(self, step: int) -> Array:
        """The numbers of the samples in a batch."""
        epoch, position = divmod(step, self.steps_per_epoch)
        samples: Array = self._chosen[epoch % len(self._chosen), position]
        return samples


@dataclass(frozen=True)
class Photographs:
    """The training images as files, for the framework's own loader."""

    files: list[Path]
    labels: Array  # (N,) int32
    size: int  # the height and width of the loader's result


def photographs(trial: Trial) -> Photographs:
    """The photographs of the trial.

    Raise ValueError where there are fewer than one batch: a loader would never return a batch.
    """
    data, images = Path(trial.paths["data"]), Path(trial.paths["images"])
    names = json.loads((data / "train_files.json").read_text(encoding="utf-8"))
    if len(names) < trial.batch_size:
        raise ValueError(f"{len(names)} photographs are fewer than a batch of {trial.batch_size}")
    return Photographs(
        files=[images / name for name in names],
        labels=np.load(data / "train_labels.npy"),
        size=trial.architecture["input_shape"][-1],
    )


def batch_number(trial: Trial, batches: Batches, step: int) -> int:
    """The batch of the order that `step` (from 0) trains on; with input `device` it repeats."""
    if trial.input == "device":
        step %= min(DEVICE_BATCHES, batches.steps_per_epoch)
    return step


@dataclass(frozen=True)
class Feed:
    """The batches of a training, as `Session.put` returns them."""

    single: Callable[[int], Any]  # from a step to its batch
    stack: Callable[[int], Any]  # from a step to the stack of the batches of the call it begins


def feed(trial: Trial, session: Session, batches: Batches) -> Feed:
    """The batches from the trial's input.

    `disk`: computed from the mapped file at each step. `host`: gathered from memory, where all
    inputs are computed before. `device`: on the device already, the first batches in turn.
    `loader`: decoded and augmented by the framework's own loader, in an order of its own; it makes
    no stacks.
    """
    if trial.input == "loader":
        stream = load_loader(trial.framework).batches(trial, photographs(trial))
        return Feed(lambda step: session.put(*next(stream)), stack=_no_stack)
    if trial.input == "device":
        return _resident(trial, session, batches)
    if trial.input == "host":
        batches.split.into_memory()
    return in_order(session, batches)


def in_order(session: Session, batches: Batches) -> Feed:
    """The batches in their order, made when they are needed."""
    per_call = steps_per_call(session)
    return Feed(
        lambda step: session.put(*batches.at(step)),
        stack=lambda step: session.put(*batches.stack(range(step, step + per_call))),
    )


def _resident(trial: Trial, session: Session, batches: Batches) -> Feed:
    """The batches, and the stacks of all calls, on the device.

    A call begins a whole number of calls after the start of a requested epoch or after their end.
    """
    per_call, per_epoch = steps_per_call(session), batches.steps_per_epoch
    count = min(DEVICE_BATCHES, per_epoch)
    singles = [session.put(*batches.at(step)) for step in range(count)]
    if per_call == 1:
        return Feed(lambda step: singles[step % count], stack=_no_stack)
    epochs = range(0, (trial.epochs + 1) * per_epoch, per_epoch)
    starts = {(epoch + call * per_call) % count for epoch in epochs for call in range(count)}
    stacks = {
        start: session.put(
            *batches.stack([step % count for step in range(start, start + per_call)])
        )
        for start in starts
    }
    return Feed(lambda step: singles[step % count], stack=lambda step: stacks[step % count])


def _no_stack(step: int) -> Any:
    raise NotImplementedError("this input makes no stacks of batches")
