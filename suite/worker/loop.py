"""Training: timed blocks of steps, and the evaluation at the end of each epoch.

The only file of the worker that reads the clock for a measurement.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from . import interleaving
from .data import Batches, Split, feed
from .protocol import Array, Session, Trial

Emit = Callable[..., None]

STEADY_WINDOW = 3  # blocks whose median is compared with that of the three before them
STEADY_CHANGE = 0.02  # less than this between the two medians: the series is steady
CALIBRATION_STEPS = 5
SYNCHRONIZE_SHARE = 0.005  # of a block, at most, is what its last synchronisation costs
SYNCHRONIZE_CALLS = 20
# Untimed at the start of a turn: the caches hold what the others worked on, and their OpenMP
# threads still spin on our cores for some milliseconds. A step of a second does not notice.
LEAD_IN_S = 0.015
LONG_STEP_S = 1.0
# Turns vary in length by this share: of equal ones, somebody's might always meet what disturbs the
# machine at regular times (a hypervisor's scheduler has periods of 100 ms).
JITTER = 0.5


class Stepper:
    """Does steps in data order and times them in blocks, from synchronised to synchronised."""

    def __init__(self, session: Session, batch_of: Callable[[int], Any], step: int = 0) -> None:
        self._session = session
        self._batch_of = batch_of
        self.step = step
        self.step_s = 0.0  # of the last block, on average
        self.loss: Any = None  # of the last step, unread

    def block(self, steps: int) -> float:
        """Do `steps` steps; return their duration in seconds. No loss is read meanwhile."""
        session, batch_of = self._session, self._batch_of
        session.synchronize()
        started = time.perf_counter_ns()
        for step in range(self.step, self.step + steps):
            self.loss = session.train_step(batch_of(step))
        session.synchronize()
        duration_s = (time.perf_counter_ns() - started) / 1e9
        self.step += steps
        self.step_s = duration_s / steps
        return duration_s

    def read_loss(self) -> tuple[float, float]:
        """The loss of the last step, and how many seconds reading it had to wait for it.

        That is what it takes beyond reading it again. After `block` nothing is left to be done: if
        reading waits, the device was still at work when the block's clock stopped. Raise
        ArithmeticError where training has diverged: its speed would mean nothing.
        """
        stamps = [time.perf_counter_ns()]
        for _ in range(2):
            loss = self._session.read(self.loss)
            stamps.append(time.perf_counter_ns())
        if not math.isfinite(loss):
            raise ArithmeticError(f"the loss is not finite after {self.step} steps")
        first, again = stamps[1] - stamps[0], stamps[2] - stamps[1]
        return loss, max(0, first - again) / 1e9

    def synchronize_s(self) -> float:
        """What it costs to synchronise a device that has nothing to do, in seconds: the median."""
        durations = []
        self._session.synchronize()
        for _ in range(SYNCHRONIZE_CALLS):
            started = time.perf_counter_ns()
            self._session.synchronize()
            durations.append((time.perf_counter_ns() - started) / 1e9)
        return statistics.median(durations)


def train(trial: Trial, session: Session, layout: str, emit: Emit) -> Stepper:
    """Train for `epochs` whole epochs, and on until the rate is known well enough.

    Return the stepper, with which the same training goes on.
    """
    training = Training(trial, session, layout, emit)
    training.first_step()
    while training.steps_left > 0 or not training.rate_is_known():
        training.block()
    training.count_steps()
    return training.stepper


class Training:
    """The series of blocks of one run: the first step, warm-up, steady blocks, ends of epochs."""

    def __init__(self, trial: Trial, session: Session, layout: str, emit: Emit) -> None:
        self._trial, self._session, self._layout, self._emit = trial, session, layout, emit
        self._batches = Batches(trial, layout)
        self.stepper = Stepper(session, feed(trial, session, self._batches))
        self._turn = interleaving.of(trial)
        self._least_s = 0.0  # of a block, for what synchronising costs
        self._block_steps: float = CALIBRATION_STEPS
        self._lead_in_steps = 0
        self._random = random.Random()
        self._warm = False
        self._warmup: list[float] = []  # samples per second of each block
        self._rates: list[float] = []
        self._measured_s = 0.0
        self._epoch_s = 0.0

    @property
    def steps_left(self) -> int:
        """Until the last epoch ends; negative when it is over."""
        total: int = self._trial.epochs * self._batches.steps_per_epoch
        return total - self.stepper.step

    def first_step(self) -> None:
        """The step that compiles, in the frameworks that do; then blocks can be calibrated."""
        with self._turn:
            self._epoch_s = self.stepper.block(1)
            synchronize_s = self.stepper.synchronize_s()
            loss, _ = self.stepper.read_loss()
        self._least_s = synchronize_s / SYNCHRONIZE_SHARE
        self._emit("compiled", first_step_s=self._epoch_s, synchronize_s=synchronize_s, loss=loss)
        self._end_epoch()

    def block(self) -> None:
        """One block, as long as it must be at least, cut where an epoch ends."""
        lead_in, steps = self._next_steps()
        with self._turn:  # what is said is said in it too, for that computes as well
            if lead_in:
                self._epoch_s += self.stepper.block(lead_in)
            self._tell(steps, self.stepper.block(steps))
        self._end_epoch()

    def _next_steps(self) -> tuple[int, int]:
        """How many steps come before the next block, and how many are in it."""
        lead_in, steps = self._lead_in_steps, max(1, round(self._block_steps))
        if lead_in:
            wanted = self._block_steps * self._random.uniform(1 - JITTER, 1 + JITTER)
            # Rounded at random: the nearest may be longer than a turn, or shorter, on average.
            steps = max(1, math.floor(wanted + self._random.random()))
        if self.steps_left > 0:
            per_epoch = self._batches.steps_per_epoch
            left = per_epoch - self.stepper.step % per_epoch
            lead_in = min(lead_in, left - 1)
            steps = min(steps, left - lead_in)
        return lead_in, steps

    def _tell(self, steps: int, duration_s: float) -> None:
        """Say what a block took, and see what the next one must be."""
        trial = self._trial
        self._epoch_s += duration_s
        rate = steps * trial.batch_size / duration_s
        (self._rates if self._warm else self._warmup).append(rate)
        self._measured_s += duration_s if self._warm else 0.0
        loss, loss_wait_s = self.stepper.read_loss()
        self._emit(
            "block" if self._warm else "warmup",
            step=self.stepper.step,
            steps=steps,
            duration_s=duration_s,
            samples_per_s=rate,
            loss=loss,
            loss_wait_s=loss_wait_s,
            left_s=self._left_s(rate),
        )
        if not self._warm:
            self._warm_up()
            self._calibrate(trial.batch_size / statistics.median(self._warmup[-STEADY_WINDOW:]))

    def _calibrate(self, step_s: float) -> None:
        """How long the next blocks are: once warm, in turns, a turn after a lead-in."""
        interleaved = self._warm and "interleaving" in self._trial.paths
        block_s = max(
            self._trial.measure["interleaved_block_s" if interleaved else "block_s"], self._least_s
        )
        self._block_steps = block_s / step_s
        if interleaved and step_s < LONG_STEP_S:
            self._lead_in_steps = math.ceil(LEAD_IN_S / step_s)

    def _warm_up(self) -> None:
        """See whether warm-up is over: the series is steady, or has been given time enough."""
        steady = _steady(self._warmup)
        self._warm = steady or len(self._warmup) >= self._trial.measure["max_warmup_blocks"]
        if self._warm:
            self._emit("warm", blocks=len(self._warmup), steady=steady)

    def rate_is_known(self) -> bool:
        """Whether two standard errors of the mean are within `relative_error`, or time is up.

        Those who take turns all use their time up: who stops early leaves the others alone.
        """
        measure = self._trial.measure
        if self._measured_s >= measure["max_measure_s"]:
            return True
        if "interleaving" in self._trial.paths:
            return False
        if self._measured_s < measure["min_measure_s"] or len(self._rates) < 2:
            return False
        error = 2 * statistics.stdev(self._rates) / math.sqrt(len(self._rates))
        return error <= measure["relative_error"] * statistics.fmean(self._rates)

    def count_steps(self) -> None:
        """Report the steps asked for, and beside them those that the framework counted."""
        with self._turn:
            counted = self._session.step_count()
        self._emit("trained", steps=self.stepper.step, optimizer_steps=counted)

    def _end_epoch(self) -> None:
        """Evaluate, outside the timed blocks, where an epoch that was asked for is over."""
        step, per_epoch = self.stepper.step, self._batches.steps_per_epoch
        if step % per_epoch or self.steps_left < 0:
            return
        with self._turn:
            accuracy = _accuracy(self._trial, self._session, self._batches, self._layout)
        self._emit("epoch", epoch=step // per_epoch, duration_s=self._epoch_s, **accuracy)
        self._epoch_s = 0.0

    def _left_s(self, rate: float) -> float:
        """How long this run may still train, for the progress display."""
        if self.steps_left > 0:
            return self.steps_left * self._trial.batch_size / rate
        return max(self._trial.measure["max_measure_s"] - self._measured_s, 0.0)


def _steady(rates: list[float]) -> bool:
    """Whether the last blocks run as fast as the ones before them (the calibration aside)."""
    window = STEADY_WINDOW
    if len(rates) < 1 + 2 * window:
        return False
    now = statistics.median(rates[-window:])
    before = statistics.median(rates[-2 * window : -window])
    return abs(now - before) <= STEADY_CHANGE * before


def _accuracy(trial: Trial, session: Session, batches: Batches, layout: str) -> dict[str, Any]:
    """Loss and accuracy on the test split and on as many of the first training samples."""
    test = Split(trial, "test", layout)
    samples = len(test.labels)
    results: dict[str, Any] = {"test_samples": samples}
    for name, split in {"train": batches.split, "test": test}.items():
        labels = split.labels[:samples]
        logits = _predict(trial, session, split, len(labels))
        losses = cross_entropies(logits, labels)
        results[f"{name}_loss"] = float(losses.mean())
        results[f"{name}_accuracy"] = float(np.mean(logits.argmax(axis=1) == labels))
        if name == "test":
            # Of the mean, by how the samples differ: docs/method.md.
            results["test_loss_error"] = float(losses.std() / math.sqrt(samples))
    return results


def _predict(trial: Trial, session: Session, split: Split, samples: int) -> Array:
    """Logits (samples, classes) float64; the last batch is padded, so that all have one shape."""
    parts = []
    for start in range(0, samples, trial.batch_size):
        chosen = np.arange(start, start + trial.batch_size)
        parts.append(session.logits(split.take(chosen, mode="clip")[0]))
    return np.concatenate(parts)[:samples].astype(np.float64)


def cross_entropies(logits: Array, labels: Array) -> Array:
    """(N,): -log softmax(logits)[label] of each sample."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_sum = np.log(np.exp(shifted).sum(axis=1))
    losses: Array = log_sum - shifted[np.arange(len(labels)), labels]
    return losses
