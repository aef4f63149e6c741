"""Training: timed blocks of steps, and the evaluation at the end of each epoch.

The only file of the worker that reads the clock for a measurement.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import numpy as np

from . import disturbance, interleaving
from .data import Batches, Feed, Split, feed
from .disturbance import Disturbance
from .losses import LOSSES, predictions
from .protocol import Array, Distributed, Multistep, Session, Trial, in_child, steps_per_call
from .ranks import Alone

Emit = Callable[..., None]

STEADY_WINDOW = 3  # blocks in each of the two windows whose medians are compared
STEADY_CHANGE = 0.02  # the series is steady when the two medians differ by this share or less
CALIBRATION_STEPS = 5
SYNCHRONIZE_SHARE = 0.005  # the last synchronization takes at most this share of a block
SYNCHRONIZE_CALLS = 20
EXCHANGES = 20  # of gradients alone; the second half counts
PREDICTIONS = "predictions.npy"  # in results/
MAX_PREDICTIONS = 65_536
EXTRA_S = 3.0  # disturbed blocks may prolong a run by this, or by its longest usual duration
# A disturbance is permanent after so many disturbed blocks in a row, if they took EXTRA_S or more
# from the first to the last. No undisturbed block can be expected then.
PERMANENT_BLOCKS = 5
LONG_STEP_S = 1.0  # such steps need no lead-in after a change of turns


class Stepper:
    """Does steps in data order, and times them in blocks that begin and end synchronized.

    `per_call` steps are one call of the session. Fewer than these are calls of one step each.
    All ranks of a trial begin a block together, and its duration is that of the slowest one.
    """

    def __init__(self, session: Session, batches: Feed, group: Alone, step: int = 0) -> None:
        self._session = session
        self.group = group
        self._batches = batches
        self.per_call = steps_per_call(session)
        self.step = step
        self.step_s = 0.0  # the mean duration of a step in the last block
        self.loss: Any = None  # the loss of the last step, not read from the device

    def block(self, steps: int) -> float:
        """Do `steps` steps; return their duration in seconds. No loss is read in the block."""
        session, per_call = self._session, self.per_call
        single, stack, last = self._batches.single, self._batches.stack, self.step + steps
        calls_end = self.step + (steps // per_call * per_call if per_call > 1 else 0)
        session.synchronize()
        self.group.wait()
        started = time.perf_counter_ns()
        for step in range(self.step, calls_end, per_call):
            self.loss = cast(Multistep, session).train_steps(stack(step))
        for step in range(calls_end, last):
            self.loss = session.train_step(single(step))
        session.synchronize()
        own_s = (time.perf_counter_ns() - started) / 1e9
        duration_s: float = max(self.group.gather(own_s))
        self.step = last
        self.step_s = duration_s / steps
        return duration_s

    def read_loss(self) -> tuple[float, float]:
        """The loss of the last step, and the seconds that reading it waited for the device.

        Of several ranks, the mean of their losses and the longest wait.

        The wait is the duration of the first reading, less that of a second reading. After `block`
        no work is left: a wait means that the device was still computing when the clock stopped.
        Raise ArithmeticError where training has diverged, because its speed has no meaning.
        """
        stamps = [time.perf_counter_ns()]
        for _ in range(2):
            own = self._session.read(self.loss)
            stamps.append(time.perf_counter_ns())
        first, again = stamps[1] - stamps[0], stamps[2] - stamps[1]
        losses, waits = zip(*self.group.gather([own, max(0, first - again) / 1e9]))
        loss = statistics.fmean(losses)
        if not math.isfinite(loss):
            raise ArithmeticError(f"the loss is not finite after {self.step} steps")
        return loss, max(waits)

    def synchronize_s(self) -> float:
        """The median duration of synchronizing an idle device, in seconds; of the slowest rank."""
        durations = []
        self._session.synchronize()
        for _ in range(SYNCHRONIZE_CALLS):
            started = time.perf_counter_ns()
            self._session.synchronize()
            durations.append((time.perf_counter_ns() - started) / 1e9)
        return float(max(self.group.gather(statistics.median(durations))))


def train(trial: Trial, session: Session, layout: str, emit: Emit, group: Alone) -> Stepper:
    """Train for `epochs` whole epochs, and then until the rate is certain.

    Return the stepper, which can continue the same training.
    """
    with interleaving.of(trial):  # preparing the data computes
        training = Training(trial, session, layout, emit, group)
    training.first_step()
    while training.steps_left > 0 or not training.rate_is_certain():
        training.block()
    training.report_steps()
    return training.stepper


def exchange(trial: Trial, session: Distributed, group: Alone, emit: Emit) -> None:
    """Emit the median duration of adding the gradients of all ranks, without any other work."""
    size = sum(math.prod(each["shape"]) for each in trial.parameters)
    add = session.exchange(np.zeros(size, np.float32))
    durations = []
    for _ in range(EXCHANGES):
        group.wait()
        started = time.perf_counter_ns()
        add()
        durations.append(max(group.gather((time.perf_counter_ns() - started) / 1e9)))
    median = statistics.median(durations[EXCHANGES // 2 :])
    emit("exchanged", bytes=4 * size, duration_s=median)


class Training:
    """The training of one run: first step, warm-up blocks, timed blocks, evaluation of epochs."""

    def __init__(
        self, trial: Trial, session: Session, layout: str, emit: Emit, group: Alone
    ) -> None:
        self._trial, self._session, self._layout, self._emit = trial, session, layout, emit
        self._batches = Batches(trial, layout)
        self.stepper = Stepper(session, feed(trial, session, self._batches), group)
        self._turn = interleaving.of(trial)
        self._min_block_s = 0.0  # shorter blocks would measure the synchronization too
        self._block_steps: float = CALIBRATION_STEPS
        self._lead_in_calls = 0
        self._random = random.Random()
        self._meter = disturbance.Meter(
            trial.cpus, processes=trial.input == "loader" or in_child(session)
        )
        self._judge = disturbance.Judge(len(trial.cpus))
        self._warm = False
        self._warmup_blocks = 0
        self._warmup: list[float] = []  # samples per second of each block that is not disturbed
        self._rates: list[float] = []
        self._measured_s = 0.0
        self._disturbed_s = 0.0
        self._disturbed_ends: list[float] = []  # of the last disturbed blocks, in seconds
        self._epoch_s = 0.0

    @property
    def steps_left(self) -> int:
        """The number of steps until the last epoch ends; negative after it."""
        total: int = self._trial.epochs * self._batches.steps_per_epoch
        return total - self.stepper.step

    def first_step(self) -> None:
        """Do the first call, in which some frameworks compile, and measure the synchronization."""
        with self._turn:
            self._epoch_s = self.stepper.block(self.stepper.per_call if self._calls_left else 1)
            synchronize_s = self.stepper.synchronize_s()
            loss, _ = self.stepper.read_loss()
        self._min_block_s = synchronize_s / SYNCHRONIZE_SHARE
        self._emit("compiled", first_step_s=self._epoch_s, synchronize_s=synchronize_s, loss=loss)
        self._end_epoch()

    def block(self) -> None:
        """Do one block of the calibrated length, or up to the end of the epoch."""
        lead_in, steps = self._next_steps()
        with self._turn:  # the report is in the turn too, because it also computes
            if lead_in:
                self._epoch_s += self.stepper.block(lead_in)
            if steps:
                before = self._meter.read()
                duration_s = self.stepper.block(steps)
                found = disturbance.between(before, self._meter.read())
                self._report(steps, duration_s, found)
        self._end_epoch()

    @property
    def _epoch_left(self) -> int:
        """The number of steps until the present epoch ends."""
        per_epoch: int = self._batches.steps_per_epoch
        return per_epoch - self.stepper.step % per_epoch

    @property
    def _calls_left(self) -> float:
        """The number of whole calls until the present epoch is evaluated; infinite if none is."""
        return self._epoch_left // self.stepper.per_call if self.steps_left > 0 else math.inf

    def _next_steps(self) -> tuple[int, int]:
        """The number of untimed steps before the next block, and of steps in the block.

        Both are whole calls. If fewer steps are left in the epoch than a call has, all are untimed.
        """
        per_call, left = self.stepper.per_call, self._calls_left
        if left < 1:
            return self._epoch_left, 0
        lead_in, calls = self._lead_in_calls, max(1, round(self._block_steps / per_call))
        if lead_in:
            length = self._block_steps / per_call * self._random.uniform(*interleaving.JITTER)
            # Rounding at random keeps the mean length; rounding to the nearest would not.
            calls = max(1, math.floor(length + self._random.random()))
        lead_in = int(min(lead_in, left - 1))
        return lead_in * per_call, int(min(calls, left - lead_in)) * per_call

    def _report(self, steps: int, duration_s: float, found: Disturbance) -> None:
        """Emit the event of a block; in warm-up, check its end and calibrate the next blocks."""
        trial = self._trial
        self._epoch_s += duration_s
        rate = steps * trial.batch_size / duration_s
        disturbed = any(self.stepper.group.gather(self._judge(found, duration_s)))
        self._disturbed_ends = [*self._disturbed_ends, time.monotonic()] if disturbed else []
        self._count(rate, duration_s, disturbed)
        loss, loss_wait_s = self.stepper.read_loss()
        self._emit(
            "block" if self._warm else "warmup",
            step=self.stepper.step,
            steps=steps,
            duration_s=duration_s,
            samples_per_s=rate,
            loss=loss,
            loss_wait_s=loss_wait_s,
            left_s=self._remaining_s(rate),
            disturbed=disturbed,
            disturbance=asdict(found),
        )
        if not self._warm:
            self._warm_up()
            recent = self._warmup[-STEADY_WINDOW:] or [rate]
            self._calibrate(trial.batch_size / statistics.median(recent))

    def _count(self, rate: float, duration_s: float, disturbed: bool) -> None:
        """Add a block to those of the warm-up, to the timed ones, or to the disturbed ones."""
        self._warmup_blocks += not self._warm
        if not disturbed:
            (self._rates if self._warm else self._warmup).append(rate)
        if self._warm and disturbed:
            self._disturbed_s += duration_s
        elif self._warm:
            self._measured_s += duration_s

    def _calibrate(self, step_s: float) -> None:
        """Set the length of the next blocks, and of the lead-in of interleaved ones."""
        interleaved = self._warm and "interleaving" in self._trial.paths
        measure = self._trial.measure
        block_s = measure["interleaved_block_s" if interleaved else "block_s"]
        block_s = max(block_s, self._min_block_s)
        self._block_steps = block_s / step_s
        if interleaved and step_s < LONG_STEP_S:
            lead_in_steps = interleaving.LEAD_IN_S / step_s
            self._lead_in_calls = math.ceil(lead_in_steps / self.stepper.per_call)

    def _warm_up(self) -> None:
        """End the warm-up if the series is steady, or if it has reached its maximum length."""
        steady = is_steady(self._warmup)
        self._warm = steady or self._warmup_blocks >= self._trial.measure["max_warmup_blocks"]
        if self._warm:
            self._emit("warm", blocks=self._warmup_blocks, steady=steady)

    def rate_is_certain(self) -> bool:
        """Whether two standard errors of the mean are within `relative_error`, or time is up.

        The time of disturbed blocks is added, up to a limit, unless the disturbance is permanent.
        Interleaved workers always use their whole time: if one stopped early, the others would
        continue with less load on the machine.
        """
        measure = self._trial.measure
        most_s = measure["max_measure_s"]
        extra_s = 0.0 if self._always_disturbed() else min(self._disturbed_s, max(EXTRA_S, most_s))
        if self._measured_s + self._disturbed_s >= most_s + extra_s:
            return True
        if "interleaving" in self._trial.paths:
            return False
        if self._measured_s < measure["min_measure_s"] or len(self._rates) < 2:
            return False
        error = 2 * statistics.stdev(self._rates) / math.sqrt(len(self._rates))
        return error <= measure["relative_error"] * statistics.fmean(self._rates)

    def _always_disturbed(self) -> bool:
        """Whether the disturbance is permanent; equal on all ranks."""
        ends = self._disturbed_ends
        permanent = len(ends) >= PERMANENT_BLOCKS and ends[-1] - ends[0] >= EXTRA_S
        return any(self.stepper.group.gather(permanent))

    def report_steps(self) -> None:
        """Emit the number of steps requested, and the number that the framework counted."""
        with self._turn:
            counted = self._session.step_count()
        self._emit("trained", steps=self.stepper.step, optimizer_steps=counted)

    def _end_epoch(self) -> None:
        """At the end of a requested epoch, evaluate the model outside the timed blocks.

        Of several ranks, whose models are equal, rank 0 does it; the next block waits for it.
        """
        step, per_epoch = self.stepper.step, self._batches.steps_per_epoch
        if step % per_epoch or self.steps_left < 0:
            return
        if self._trial.rank:
            self._epoch_s = 0.0
            return
        with self._turn:
            accuracy = _accuracy(self._trial, self._session, self._batches, self._layout)
        if not all(value is None or math.isfinite(value) for value in accuracy.values()):
            raise ArithmeticError(f"the loss of the evaluation is not finite after {step} steps")
        self._emit("epoch", epoch=step // per_epoch, duration_s=self._epoch_s, **accuracy)
        self._epoch_s = 0.0

    def _remaining_s(self, rate: float) -> float:
        """The longest remaining duration of the training, for the progress display."""
        if self.steps_left > 0:
            return self.steps_left * self._trial.batch_size / rate
        return max(self._trial.measure["max_measure_s"] - self._measured_s, 0.0)


def is_steady(rates: list[float]) -> bool:
    """Whether the last blocks are as fast as those before them, without the first block.

    `rates` may also be durations.
    """
    window = STEADY_WINDOW
    if len(rates) < 1 + 2 * window:
        return False
    now = statistics.median(rates[-window:])
    before = statistics.median(rates[-2 * window : -window])
    return abs(now - before) <= STEADY_CHANGE * before


def _accuracy(trial: Trial, session: Session, batches: Batches, layout: str) -> dict[str, Any]:
    """Loss and accuracy on the test split, and on as many of the first training samples."""
    test = Split(trial, "test", layout)
    samples = len(test.labels)
    results: dict[str, Any] = {"test_samples": samples}
    for name, split in {"train": batches.split, "test": test}.items():
        labels = split.labels[:samples]
        logits = _predict(trial, session, split, len(labels))
        losses = LOSSES[trial.loss](logits, labels)
        predicted = predictions(trial.loss, logits)
        results[f"{name}_loss"] = float(losses.mean())
        # Numbers have no accuracy.
        right = None if predicted is None else float(np.mean(predicted == labels))
        results[f"{name}_accuracy"] = right
        if name == "test":
            if predicted is not None:
                _keep_predictions(Path(trial.paths["results"]), predicted, labels)
            # The standard error of the mean loss: docs/explanation/statistics.md.
            results["test_loss_error"] = float(losses.std() / math.sqrt(losses.size))
    return results


def _keep_predictions(results: Path, predicted: Array, labels: Array) -> None:
    """Write predictions.npy (2, n): the predictions of the last evaluation, and the labels.

    It has the smallest unsigned type. Of more than MAX_PREDICTIONS, evenly spaced ones are written.
    """
    pairs = np.stack([predicted.ravel(), labels.ravel()])
    if pairs.shape[1] > MAX_PREDICTIONS:
        chosen = np.linspace(0, pairs.shape[1] - 1, MAX_PREDICTIONS).astype(int)
        pairs = pairs[:, chosen]
    np.save(results / PREDICTIONS, pairs.astype(np.min_scalar_type(int(pairs.max()))))


def _predict(trial: Trial, session: Session, split: Split, samples: int) -> Array:
    """Logits (samples, ..., classes) float64; the last batch is padded to the same size."""
    parts = []
    for start in range(0, samples, trial.rank_batch_size):
        chosen = np.arange(start, start + trial.rank_batch_size)
        parts.append(session.logits(split.take(chosen, mode="clip")[0]))
    return np.concatenate(parts)[:samples].astype(np.float64)
