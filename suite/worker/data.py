"""Batches of the shared data format, in host memory, in one fixed order for every framework."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .protocol import Array, Trial


def load_split(trial: Trial, split: str, layout: str) -> tuple[Array, Array]:
    """Images normalised to the trial's precision in `layout`, labels int32, both in host memory.

    On disk: `<split>_images.npy` (N, C, H, W) uint8 and `<split>_labels.npy` (N,) int32.
    """
    folder = Path(trial.paths["data"])
    raw = np.load(folder / f"{split}_images.npy", mmap_mode="r")
    labels = np.load(folder / f"{split}_labels.npy")
    images = np.empty(raw.shape, dtype=trial.precision)
    normalize = trial.normalize
    for channel, (mean, std) in enumerate(zip(normalize["mean"], normalize["std"])):
        # One value for each possible byte: the same float for the same pixel, and no second pass.
        values = ((np.arange(256) / 255 - mean) / std).astype(trial.precision)
        images[:, channel] = values[raw[:, channel]]
    if layout == "NHWC":
        images = np.ascontiguousarray(images.transpose(0, 2, 3, 1))
    return images, labels


class Batches:
    """The training split as an endless series of equal batches in the order of `order.npy`.

    `order.npy` (epochs, N) holds one permutation for each epoch. An epoch is ceil(N / batch size)
    steps; its last batch is filled from the epoch's beginning, as Caffe's data layer does, so that
    no framework compiles for a second batch size.
    """

    def __init__(self, trial: Trial, layout: str) -> None:
        self._images, self._labels = load_split(trial, "train", layout)
        self._order = np.load(trial.paths["order"])
        self._batch_size = trial.batch_size
        self.steps_per_epoch = -(-self._order.shape[1] // trial.batch_size)

    def at(self, step: int) -> tuple[Array, Array]:
        """Images and labels of the batch that `step` (from 0) trains on."""
        epoch, position = divmod(step, self.steps_per_epoch)
        start = position * self._batch_size
        chosen = self._order[epoch % len(self._order)].take(
            range(start, start + self._batch_size), mode="wrap"
        )
        return self._images.take(chosen, axis=0), self._labels.take(chosen)

    def first(self, samples: int) -> tuple[Array, Array]:
        """The first `samples` images and labels of the split, for the training accuracy."""
        return self._images[:samples], self._labels[:samples]
