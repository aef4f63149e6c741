"""The files, the options and the stopwatch of the ladder's scripts in Python.

A script is started as `python SCRIPT WEIGHTS INPUTS LABELS [--infer N] [--train STEPS]` and prints
one line of JSON (docs/how-to/inference.md). `common.hpp` is the same for C++.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

LEARNING_RATE = 0.01
BATCH = 64
SHOWN = 8  # inputs whose logits are printed
WARMUP_CALLS = 100
WARMUP_STEPS = 2  # the first steps compile; they are not in the rate
SHAPES = {
    "conv1.weight": (20, 1, 5, 5),
    "conv1.bias": (20,),
    "conv2.weight": (50, 20, 5, 5),
    "conv2.bias": (50,),
    "dense1.weight": (500, 800),
    "dense1.bias": (500,),
    "dense2.weight": (10, 500),
    "dense2.bias": (10,),
}

Predict = Callable[[np.ndarray], np.ndarray]
TrainStep = Callable[[np.ndarray, np.ndarray], Any]


def run(
    predict: Predict,
    train_step: TrainStep | None = None,
    *,
    channels_last: bool = False,
    read: Callable[[Any], float] = float,
) -> None:
    """Do what the options ask for, and print the result.

    `predict` takes an image as a batch of 1 and returns its logits. `train_step` takes a batch and
    its labels, changes the weights, and returns the loss before the change, of which `read` makes a
    number. Images are (N, 1, 28, 28), or (N, 28, 28, 1) with `channels_last`.
    """
    chosen = options()
    images, labels = chosen.inputs, chosen.labels
    if channels_last:
        images = np.ascontiguousarray(images.transpose(0, 2, 3, 1))
    shown = [np.array(predict(images[i : i + 1]))[0].tolist() for i in range(SHOWN)]
    result = {"logits": shown, **latencies(predict, images, chosen.infer)}
    if train_step:
        result |= training(
            lambda part: train_step(images[part], labels[part]), read, len(images), chosen.train
        )
    print(json.dumps(result))


def latencies(predict: Predict, images: np.ndarray, calls: int) -> dict[str, Any]:
    """The percentiles of `calls` calls in seconds, after a warm-up; null where there is none."""
    durations = []
    for number in range(-WARMUP_CALLS, calls) if calls else ():
        at = number % len(images)
        image = images[at : at + 1]
        started = time.perf_counter()
        predict(image)
        durations.append(time.perf_counter() - started)
    timed = durations[WARMUP_CALLS:]
    p50, p99 = np.quantile(timed, (0.5, 0.99)).tolist() if timed else (None, None)
    return {"calls": len(timed), "p50_s": p50, "p99_s": p99}


def training(
    step: Callable[[slice], Any], read: Callable[[Any], float], samples: int, steps: int
) -> dict[str, Any]:
    """The losses of `steps` steps on the batches in order, and the rate after the warm-up."""
    batches = samples // BATCH
    losses: list[float] = []
    found: list[Any] = []  # by steps that may still run
    started = time.perf_counter()
    for number in range(steps):
        if number == WARMUP_STEPS:
            losses, found = [float(read(loss)) for loss in found], []
            started = time.perf_counter()
        first = number % batches * BATCH
        found.append(step(slice(first, first + BATCH)))
    losses += [float(read(loss)) for loss in found]
    timed = steps - WARMUP_STEPS
    rate = timed * BATCH / (time.perf_counter() - started) if timed > 0 else None
    return {"losses": losses, "samples_per_s": rate}


def weights(*, channels_last: bool = False) -> dict[str, np.ndarray]:
    """The weights by name: (out, in, height, width) and (out, in).

    With `channels_last` they are (height, width, in, out) and (in, out), and the first dense layer
    takes its inputs in the order (height, width, channel).
    """
    found: dict[str, np.ndarray] = dict(options().weights)
    if channels_last:
        flattened = found["dense1.weight"].reshape(500, 50, 4, 4)
        found["dense1.weight"] = flattened.transpose(0, 2, 3, 1).reshape(500, 800)
        for name, values in found.items():
            if values.ndim > 1:
                axes = (2, 3, 1, 0) if values.ndim == 4 else (1, 0)
                found[name] = np.ascontiguousarray(values.transpose(axes))
    return found


@functools.cache
def options() -> argparse.Namespace:
    """The options of the command line, with the arrays in the place of the files."""
    parser = argparse.ArgumentParser()
    parser.add_argument("weights", type=Path, help="float32, all weights in canonical form")
    parser.add_argument("inputs", type=Path, help="float32 (N, 1, 28, 28), normalized")
    parser.add_argument("labels", type=Path, help="int32 (N)")
    parser.add_argument("--infer", type=int, default=0, help="the number of timed images")
    parser.add_argument("--train", type=int, default=0, help="the number of steps")
    chosen = parser.parse_args()
    try:
        flat, inputs, labels = map(np.load, (chosen.weights, chosen.inputs, chosen.labels))
    except (OSError, ValueError) as error:
        parser.error(str(error))
    sizes = [math.prod(shape) for shape in SHAPES.values()]
    if flat.shape != (sum(sizes),):
        parser.error(f"{chosen.weights} has shape {flat.shape}, LeNet has {sum(sizes)} weights")
    if inputs.shape[1:] != (1, 28, 28) or len(inputs) < BATCH or len(labels) != len(inputs):
        parser.error(
            f"{chosen.inputs} must have {BATCH} images of 1 x 28 x 28 or more, with labels"
        )
    parts = zip(SHAPES.items(), np.split(flat, np.cumsum(sizes)[:-1]), strict=True)
    chosen.weights = {name: part.reshape(shape) for (name, shape), part in parts}
    chosen.inputs, chosen.labels = inputs, labels
    return chosen
