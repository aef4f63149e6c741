"""Compares loss and accuracy after the last epoch between the frameworks of a workload."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from suite.models import predicted_tokens
from suite.report.warning import ReportWarning
from suite.results.record import Epoch, Record

# In standard errors of the difference between two results on test sets of the same size. Runs of
# one framework with other seeds differ from their median by at most 1.3
# (docs/measurements/seeds.md).
THRESHOLD = 4


def warnings(trials: Mapping[str, Sequence[Record]]) -> dict[str, tuple[ReportWarning, ...]]:
    """A warning for each trial, by id, that differs from the other trials of its workload."""
    workloads: dict[Hashable, dict[str, Epoch]] = {}
    for name, runs in trials.items():
        if found := _last_epoch(runs):
            workloads.setdefault(_workload(runs[0], found), {})[name] = found
    differing: dict[str, str] = {}
    for epochs in workloads.values():
        differing |= _differences(epochs)
    hint = "compare the loss in its events.jsonl with the others'; it may train differently"
    return {
        name: (ReportWarning("loss or accuracy differs from the others", differing[name], hint),)
        for name in differing
    }


def _workload(record: Record, epoch: Epoch) -> Hashable:
    """A key that is equal for results that must agree."""
    return record.workload, record.device, record.seed, epoch.epoch


def _last_epoch(runs: Sequence[Record]) -> Epoch | None:
    """The last epoch of the first run that has one, with the number of its test predictions.

    A text has one for each of its tokens.
    """
    found = next((run for run in runs if run.status == "ok" and run.epochs), None)
    if found is None:
        return None
    epoch = found.epochs[-1]
    predictions = (epoch.test_samples or 0) * predicted_tokens(found.workload.model)
    return epoch.model_copy(update={"test_samples": predictions})


def _differences(epochs: Mapping[str, Epoch]) -> dict[str, str]:
    """How trials differ from the median of all; without those whose difference chance explains.

    Two trials are compared with each other, because neither is known to be right.
    """
    if len(epochs) == 2:
        first, second = epochs
        others = {first: [epochs[second]], second: [epochs[first]]}
        found = {name: _difference(epochs[name], _median(others[name])) for name in epochs}
    else:
        middle = _median(epochs.values())
        found = {name: _difference(epoch, middle) for name, epoch in epochs.items()}
    return {name: reason for name, reason in found.items() if reason}


@dataclass(frozen=True)
class _Median:
    """Medians over the trials of a workload."""

    accuracy: float | None  # None where the targets are numbers
    loss: float
    loss_error: float


def _median(epochs: Iterable[Epoch]) -> _Median:
    found = list(epochs)
    accuracies = [each.test_accuracy for each in found if each.test_accuracy is not None]
    return _Median(
        accuracy=median(accuracies) if accuracies else None,
        loss=median(epoch.test_loss for epoch in found),
        loss_error=median(epoch.test_loss_error or math.inf for epoch in found),
    )


def _difference(own: Epoch, middle: _Median) -> str | None:
    """How a trial differs from the median; None where chance explains the difference."""
    if not own.test_samples:
        return None
    accuracy = middle.accuracy
    if accuracy is not None and own.test_accuracy is not None:
        # The variance of a proportion; never 0, even where all answers are right.
        variance = max(accuracy * (1 - accuracy), 1 / own.test_samples) / own.test_samples
        if abs(own.test_accuracy - accuracy) > THRESHOLD * math.sqrt(2 * variance):
            return f"accuracy {own.test_accuracy:.2%}, median {accuracy:.2%}"
    if abs(own.test_loss - middle.loss) > THRESHOLD * math.sqrt(2) * middle.loss_error:
        return f"test loss {own.test_loss:.3g}, median {middle.loss:.3g}"
    return None
