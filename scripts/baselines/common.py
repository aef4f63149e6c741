"""What the hand-written scripts share: the data, and a stopwatch that compare.py works by pipe.

Each is started as `python SCRIPT DATA VARIANT BATCH_SIZE LEARNING_RATE`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

VARIANT = sys.argv[2]
BATCH = int(sys.argv[3])
LEARNING_RATE = float(sys.argv[4])
# Of ResNet-50: channels, blocks, stride of the first.
STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))


def data(*, channels_last: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images (N, channels, height, width) float32, labels int32, a shuffled order."""
    folder = Path(sys.argv[1])
    images = np.load(folder / "train_inputs.npy").astype(np.float32)
    images = (images - images.mean()) / images.std()
    if channels_last:
        images = np.ascontiguousarray(images.transpose(0, 2, 3, 1))
    labels = np.load(folder / "train_labels.npy")
    return images, labels, np.random.default_rng(0).permutation(len(labels))


def serve(
    step: Callable[[np.ndarray], object], wait: Callable[[], object], order: np.ndarray
) -> None:
    """`serve_turns` with a step for each batch and, at the end of a turn, a wait for them all."""
    batches = order[: len(order) // BATCH * BATCH].reshape(-1, BATCH)
    done = 0

    def turn(steps: int) -> None:
        nonlocal done
        for number in range(done, done + steps):
            step(batches[number % len(batches)])
        wait()
        done += steps

    serve_turns(turn)


def serve_turns(turn: Callable[[int], object]) -> None:
    """For each number of steps on standard input, do them and print how long they took."""
    for line in sys.stdin:
        started = time.perf_counter()
        turn(int(line))
        print(time.perf_counter() - started, flush=True)
