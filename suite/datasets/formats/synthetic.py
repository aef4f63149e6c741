"""Made-up batches in the shape that a model takes, so that any model can be run without data.

Images are coarse random fields, seven (on small images four) squares a side, each of one colour.
Noise of single pixels would not do: its mean over an image is always the same, so all images look
alike to the layers that average, and a batch norm then makes much of the little that is left.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suite.datasets.formats import prepared
from suite.manifests.datasets import SPLITS, DatasetManifest, Normalize
from suite.manifests.workloads import Workload
from suite.models import MODELS

NAME = "synthetic"
TITLE = "Made-up batches in the shape that the model takes"
BATCHES = {"train": 8, "test": 1}


def fitted(workload: Workload) -> DatasetManifest:
    """The dataset that fits the workload's model and batch size."""
    model = MODELS[workload.model]()
    is_image = len(model.input_shape) == 3
    channels = model.input_shape[0] if is_image else 1
    mean, std = (0.5, 0.25) if is_image else (0.0, 1.0)
    return DatasetManifest(
        name=NAME,
        title=TITLE,
        format="synthetic",
        shape=model.input_shape,
        classes=model.classes,
        normalize=Normalize(mean=(mean,) * channels, std=(std,) * channels),
        samples={split: BATCHES[split] * workload.batch_size for split in SPLITS},
    )


def write(manifest: DatasetManifest, place: Path, seed: int) -> None:
    """Make the dataset in the new folder `place`."""
    place.mkdir(parents=True)
    random = np.random.default_rng(seed)
    for split in SPLITS:
        samples = manifest.samples[split]
        np.save(place / f"{split}_inputs.npy", _inputs(random, samples, manifest.shape))
        labels = random.integers(0, manifest.classes, samples, dtype=np.int32)
        np.save(place / f"{split}_labels.npy", labels)
    prepared.write(place, NAME, "made here")


def _inputs(random: np.random.Generator, samples: int, shape: tuple[int, ...]) -> NDArray[Any]:
    if len(shape) == 1:
        return random.standard_normal((samples, *shape), dtype=np.float32)
    channels, height, width = shape
    squares = 7 if height > 100 else 4
    fields = random.integers(0, 256, (samples, channels, squares, squares), dtype=np.uint8)
    rows = np.arange(height) * squares // height
    columns = np.arange(width) * squares // width
    return np.ascontiguousarray(fields[:, :, rows[:, None], columns])
