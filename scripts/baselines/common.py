"""The data of the hand-written scripts, and the stopwatch that compare.py controls through a pipe.

A script is started as `python SCRIPT DATA VARIANT BATCH_SIZE LEARNING_RATE PRECISION [MODEL]`. The
scripts for inference (inference_<framework>.py) take the model from `<MODEL>_<framework>.py`. Their
weights have the suite's distribution (He et al. 2015), because TensorFlow's GELU takes longer for
large values. No bias is zero and no scale is one, because a compiler could remove the operation.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

VARIANT = sys.argv[2]
BATCH = int(sys.argv[3])
LEARNING_RATE = float(sys.argv[4])
MIXED = sys.argv[5] == "bf16_mixed"  # PyTorch, JAX, and LeNet in TensorFlow, Keras
MODEL = sys.argv[6] if sys.argv[6:] else None
INFERENCE = MODEL is not None
# Of the scripts that accumulate gradients and average the weights.
MICRO_BATCHES, EMA_DECAY = 4, 0.999
QUERIES = 256  # images for inference, used in rotation
DEVICE_BATCHES = 8  # on a GPU, used in rotation, as the suite does with input `device`
# The stages of ResNet-50: channels, blocks, stride of the first block.
STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
# The sizes of gpt_mini, and the constants of its AdamW.
VOCABULARY, LENGTH, BLOCKS, FEATURES, HEADS = 256, 256, 6, 192, 6
BETAS, EPSILON, DECAY = (0.9, 0.999), 1e-7, 0.1
# The sizes of vit_tiny: of a patch in pixels, then numbers of patches, features, heads and blocks.
PATCH, PATCHES, VIT_FEATURES, VIT_HEADS, VIT_BLOCKS, VIT_EPSILON = 16, 196, 192, 3, 12, 1e-6


def data(*, channels_last: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images (N, channels, height, width) in float32, labels in int32, and a shuffled order."""
    folder = Path(sys.argv[1])
    images = np.load(folder / "train_inputs.npy").astype(np.float32)
    images = (images - images.mean()) / images.std()
    if channels_last:
        images = np.ascontiguousarray(images.transpose(0, 2, 3, 1))
    labels = np.load(folder / "train_labels.npy")
    return images, labels, np.random.default_rng(0).permutation(len(labels))


def queries(*, channels_last: bool = False) -> np.ndarray:
    """The test images for inference, as those of `data`."""
    images = np.load(Path(sys.argv[1]) / "test_inputs.npy")[:QUERIES].astype(np.float32)
    images = (images - images.mean()) / images.std()
    return np.ascontiguousarray(images.transpose(0, 2, 3, 1)) if channels_last else images


def model(framework: str) -> ModuleType:
    """The script of the model in a framework, which trains only where it is started itself."""
    return importlib.import_module(f"{MODEL}_{framework}")


def text() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sequences of tokens (N, LENGTH) int32, the token after each of them, and a shuffled order."""
    tokens = np.load(Path(sys.argv[1]) / "train_tokens.npy").astype(np.int32)
    end = (len(tokens) - 1) // LENGTH * LENGTH
    inputs, labels = (part.reshape(-1, LENGTH) for part in (tokens[:end], tokens[1 : end + 1]))
    return inputs, labels, np.random.default_rng(0).permutation(len(labels))


def serve(
    step: Callable[[Any, Any], object],
    wait: Callable[[], object],
    inputs: Any,
    labels: Any,
    order: np.ndarray,
    *,
    put: Callable[[Any, Any], tuple[Any, Any]] | None = None,
) -> None:
    """`serve_slices` with a step for each batch; at the end of a slice, wait for all of them.

    `put` copies the inputs and labels of a batch to the GPU, before the first slice. Raise
    SystemExit where the trial has a GPU and the script, without `put`, would not use it.
    """
    if os.environ.get("CUDA_VISIBLE_DEVICES") and not put:
        raise SystemExit("this script computes on the CPU only")
    batches = order[: len(order) // BATCH * BATCH].reshape(-1, BATCH)
    there = [put(inputs[each], labels[each]) for each in batches[:DEVICE_BATCHES]] if put else []
    done = 0

    def batch(number: int) -> tuple[Any, Any]:
        if there:
            return there[number % len(there)]
        samples = batches[number % len(batches)]
        return inputs[samples], labels[samples]

    def run_slice(steps: int) -> None:
        nonlocal done
        for number in range(done, done + steps):
            step(*batch(number))
        wait()
        done += steps

    serve_slices(run_slice)


def serve_slices(run_slice: Callable[[int], object]) -> None:
    """For each number of steps on standard input, do the steps and print their duration."""
    for line in sys.stdin:
        started = time.perf_counter()
        run_slice(int(line))
        print(time.perf_counter() - started, flush=True)
