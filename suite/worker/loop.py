"""What a worker does with a session: training blocks, epochs, and the steps of the parity proof.

The only file of the worker that reads the clock for a measurement.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .data import Batches, load_split
from .protocol import Array, Session, Trial, flatten

Emit = Callable[..., None]

STEADY_WINDOW = 3  # blocks whose median is compared with that of the three before them
STEADY_CHANGE = 0.02  # less than this between the two medians: the series is steady
CALIBRATION_STEPS = 5


class Stepper:
    """Does steps in data order and times them in blocks, from synchronised to synchronised."""

    def __init__(self, session: Session, batches: Batches) -> None:
        self._session = session
        self._batches = batches
        self.step = 0
        self.losses: list[Any] = []

    def block(self, steps: int) -> float:
        """Do `steps` steps; return their duration in seconds. No loss is read meanwhile."""
        session, batches, losses = self._session, self._batches, self.losses
        session.synchronize()
        started = time.perf_counter_ns()
        for step in range(self.step, self.step + steps):
            losses.append(session.train_step(*batches.at(step)))
        session.synchronize()
        duration_s = (time.perf_counter_ns() - started) / 1e9
        self.step += steps
        return duration_s

    def check_loss(self) -> None:
        """Raise ArithmeticError where training has diverged: its speed would mean nothing."""
        if self.losses and not math.isfinite(self._session.read(self.losses[-1])):
            raise ArithmeticError(f"the loss is not finite after {self.step} steps")


def train(trial: Trial, session: Session, layout: str, emit: Emit) -> None:
    """Train for `epochs` whole epochs, and on until the rate is known well enough."""
    batches = Batches(trial, layout)
    stepper = Stepper(session, batches)
    first_step_s = stepper.block(1)
    emit("compiled", first_step_s=first_step_s)
    total_steps = trial.epochs * batches.steps_per_epoch
    epoch_s = first_step_s
    warmup: list[float] = []
    rates: list[float] = []
    measured_s = 0.0
    steps = CALIBRATION_STEPS
    while stepper.step < total_steps or not _enough(trial, rates, measured_s):
        left = batches.steps_per_epoch - stepper.step % batches.steps_per_epoch
        steps_now = min(steps, left) if stepper.step < total_steps else steps
        duration_s = stepper.block(steps_now)
        epoch_s += duration_s
        rate = steps_now * trial.batch_size / duration_s
        warm = _steady(warmup) or len(warmup) > trial.measure["max_warmup_blocks"]
        (rates if warm else warmup).append(rate)
        measured_s += duration_s if warm else 0.0
        emit(
            "block" if warm else "warmup",
            step=stepper.step,
            steps=steps_now,
            duration_s=duration_s,
            samples_per_s=rate,
            left_s=_left_s(trial, total_steps - stepper.step, rate, measured_s),
        )
        if len(warmup) == 1:
            steps = max(1, round(trial.measure["block_s"] * rate / trial.batch_size))
        if stepper.step <= total_steps and left == steps_now:
            stepper.check_loss()
            epoch = stepper.step // batches.steps_per_epoch
            emit("epoch", epoch=epoch, duration_s=epoch_s, **_accuracy(trial, session, batches, layout))
            epoch_s = 0.0
    stepper.check_loss()


def _steady(rates: list[float]) -> bool:
    """Whether the last blocks run as fast as the ones before them (the calibration aside)."""
    window = STEADY_WINDOW
    if len(rates) < 1 + 2 * window:
        return False
    now = statistics.median(rates[-window:])
    before = statistics.median(rates[-2 * window : -window])
    return abs(now - before) <= STEADY_CHANGE * before


def _enough(trial: Trial, rates: list[float], measured_s: float) -> bool:
    """Whether the mean rate is known to `relative_error` (two standard errors), or time is up."""
    measure = trial.measure
    if measured_s >= measure["max_measure_s"]:
        return True
    if measured_s < measure["min_measure_s"] or len(rates) < 2:
        return False
    error = 2 * statistics.stdev(rates) / math.sqrt(len(rates))
    return error <= measure["relative_error"] * statistics.fmean(rates)


def _left_s(trial: Trial, steps_left: int, rate: float, measured_s: float) -> float:
    """How long this run may still train, for the progress display."""
    epochs_s = steps_left * trial.batch_size / rate
    return max(epochs_s, 0.0) or max(trial.measure["max_measure_s"] - measured_s, 0.0)


def _accuracy(trial: Trial, session: Session, batches: Batches, layout: str) -> dict[str, float]:
    """Loss and accuracy on the test split and on as many of the first training images."""
    test = load_split(trial, "test", layout)
    results = {}
    for split, (images, labels) in {"train": batches.first(len(test[1])), "test": test}.items():
        logits = _predict(trial, session, images)
        results[f"{split}_loss"] = float(cross_entropy(logits, labels))
        results[f"{split}_accuracy"] = float(np.mean(logits.argmax(axis=1) == labels))
    return results


def _predict(trial: Trial, session: Session, images: Array) -> Array:
    """Logits (N, classes) float64; the last batch is padded, so that all have one shape."""
    parts = []
    for start in range(0, len(images), trial.batch_size):
        chosen = np.arange(start, start + trial.batch_size)
        parts.append(session.logits(images.take(chosen, axis=0, mode="clip")))
    return np.concatenate(parts)[: len(images)].astype(np.float64)


def cross_entropy(logits: Array, labels: Array) -> float:
    """The mean over the batch of -log softmax(logits)[label]."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_sum = np.log(np.exp(shifted).sum(axis=1))
    return float(np.mean(log_sum - shifted[np.arange(len(labels)), labels]))


def parity(trial: Trial, session: Session, layout: str, emit: Emit) -> None:
    """Do `steps` training steps and write all that must agree, one set of files for each step.

    `step<NN>_logits.npy` (N, classes) and `_gradients.npy` before the step, `_loss.npy` as the
    step returned it, `_weights.npy` after it; gradients and weights as `flatten` lays them.
    """
    batches = Batches(trial, layout)
    results = Path(trial.paths["results"])
    for step in range(trial.steps):
        images, labels = batches.at(step)
        logits = session.logits(images)
        gradients = flatten(trial, session.gradients(images, labels))
        loss = session.read(session.train_step(images, labels))
        weights = flatten(trial, session.weights())
        tensors = {"logits": logits, "gradients": gradients, "loss": loss, "weights": weights}
        for name, values in tensors.items():
            np.save(results / f"step{step:02d}_{name}.npy", np.asarray(values))
        emit("parity", step=step, loss=loss)


MODES: dict[str, Callable[[Trial, Session, str, Emit], None]] = {"train": train, "parity": parity}
