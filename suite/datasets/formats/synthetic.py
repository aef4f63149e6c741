"""Generated batches in the input shape of a model, so that any model can run without a dataset.

An image is a grid of random squares, each of one colour: seven on a side, four on small images.
Independent random pixels are unsuitable: all such images have nearly the same mean, so the layers
that average make them almost equal, and a batch norm then amplifies the small differences left.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suite.datasets.formats import prepared
from suite.manifests.datasets import SPLITS, DatasetManifest, Normalize
from suite.manifests.losses import OF_NUMBERS
from suite.manifests.workloads import Workload
from suite.models import MODELS
from suite.models.architecture import Architecture
from suite.models.sequences import Embedding

NAME = "synthetic"
TITLE = "Generated batches in the shape that the model takes"
BATCHES = {"train": 8, "test": 1}


def fitted(workload: Workload) -> DatasetManifest:
    """The manifest that fits the workload's model and batch size."""
    model = MODELS[workload.model]()
    own = workload.query_samples
    return DatasetManifest(
        name=NAME,
        title=TITLE,
        format="synthetic",
        shape=model.input_shape,
        classes=model.classes,
        loss=workload.loss,
        positions=model.positions,
        vocabulary=_vocabulary(model),
        padding_id=model.padding_id,
        normalize=_normalize(model),
        samples={split: own or BATCHES[split] * workload.batch_size for split in SPLITS},
    )


def _vocabulary(model: Architecture) -> int | None:
    """The number of tokens, where a sequence of them has one class."""
    first = model.layers[0]
    return first.vocabulary if isinstance(first, Embedding) and not model.positions else None


def _normalize(model: Architecture) -> Normalize:
    if model.takes_tokens:
        return Normalize(mean=(), std=())
    if len(model.input_shape) == 1:
        return Normalize(mean=(0.0,), std=(1.0,))
    channels = model.input_shape[0]
    return Normalize(mean=(0.5,) * channels, std=(0.25,) * channels)


def write(manifest: DatasetManifest, folder: Path, seed: int) -> None:
    """Generate the dataset in the new folder `folder`."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(seed)
    for split in SPLITS:
        samples = manifest.samples[split]
        if manifest.holds_tokens and manifest.positions:
            tokens = samples * manifest.shape[0] + 1
            size = np.uint8 if manifest.classes <= 256 else np.int32
            values = random.integers(0, manifest.classes, tokens, dtype=size)
            np.save(folder / f"{split}_tokens.npy", values)
            continue
        if manifest.vocabulary is not None:
            inputs = _sequences(random, samples, manifest, manifest.vocabulary)
        else:
            inputs = _inputs(random, samples, manifest.shape)
        np.save(folder / f"{split}_inputs.npy", inputs)
        np.save(folder / f"{split}_labels.npy", _labels(random, samples, manifest))
    prepared.write(folder, NAME, prepared.GENERATED)


def _labels(
    random: np.random.Generator, samples: int, manifest: DatasetManifest
) -> NDArray[np.int32 | np.float32]:
    """Classes (samples, *positions), or normal numbers, or zeros and ones, (samples, outputs)."""
    shape = samples, manifest.classes
    if manifest.loss in OF_NUMBERS:
        return random.standard_normal(shape, dtype=np.float32)
    if manifest.loss == "binary_cross_entropy":
        return random.integers(0, 2, shape).astype(np.float32)
    return random.integers(0, manifest.classes, (samples, *manifest.positions), dtype=np.int32)


def _sequences(
    random: np.random.Generator, samples: int, manifest: DatasetManifest, vocabulary: int
) -> NDArray[np.int32]:
    """Tokens (samples, length).

    Where there is padding, it is after or before a random number of other tokens, from none to all.
    """
    (length,) = manifest.shape
    padding_id = manifest.padding_id
    if padding_id is None:
        return random.integers(0, vocabulary, (samples, length), dtype=np.int32)
    tokens = random.integers(0, vocabulary - 1, (samples, length), dtype=np.int32)
    tokens += tokens >= padding_id  # the others
    lengths, after = random.integers(0, length + 1, (samples, 1)), random.random((samples, 1)) < 0.5
    places = np.arange(length)
    kept = np.where(after, places, places[::-1]) < lengths
    return np.where(kept, tokens, np.int32(padding_id))


def _inputs(random: np.random.Generator, samples: int, shape: tuple[int, ...]) -> NDArray[Any]:
    if len(shape) == 1:
        return random.standard_normal((samples, *shape), dtype=np.float32)
    channels, height, width = shape
    squares = 7 if height > 100 else 4
    fields = random.integers(0, 256, (samples, channels, squares, squares), dtype=np.uint8)
    rows = np.arange(height) * squares // height
    columns = np.arange(width) * squares // width
    return np.ascontiguousarray(fields[:, :, rows[:, None], columns])
