"""What the hand-written scripts share: the data and a stopwatch. They know nothing of the suite."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

BATCH = 64
LEARNING_RATE = 0.01
WARMUP_STEPS = 150


def mnist() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images (60000, 1, 28, 28) float32, labels int32, a shuffled order."""
    folder = Path(sys.argv[1])
    images = np.load(folder / "train_images.npy").astype(np.float32)
    images = (images / 255 - 0.1307) / 0.3081
    labels = np.load(folder / "train_labels.npy")
    return images, labels, np.random.default_rng(0).permutation(len(labels))


def measure(
    step: Callable[[np.ndarray], None], wait: Callable[[], None], order: np.ndarray
) -> None:
    """Print the images per second of `step(indices of one batch)`."""
    steps = int(sys.argv[2])
    batches = [order[i * BATCH % 59_000 :][:BATCH] for i in range(WARMUP_STEPS + steps)]
    for batch in batches[:WARMUP_STEPS]:
        step(batch)
    wait()
    started = time.perf_counter()
    for batch in batches[WARMUP_STEPS:]:
        step(batch)
    wait()
    print(BATCH * steps / (time.perf_counter() - started))
