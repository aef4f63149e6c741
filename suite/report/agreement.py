"""Compares loss and accuracy after the last epoch between the frameworks of a workload."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from statistics import median

from suite.report.warnings import ReportWarning
from suite.results.record import Epoch, Record

# In standard errors of the difference between two results on test sets of the same size. Runs of
# one framework with other seeds differ from their median by at most 1.3
# (docs/measurements/seeds.md).
THRESHOLD = 4


def warnings(trials: Mapping[str, Sequence[Record]]) -> dict[str, tuple[ReportWarning, ...]]:
    """A warning for each trial, by id, that differs from the other trials of its workload."""
    workloads: dict[str, dict[str, Epoch]] = {}
    for name, runs in trials.items():
        if found := _last_epoch(runs):
            workloads.setdefault(_workload(runs[0], found), {})[name] = found
    differing = {
        name: reason
        for epochs in workloads.values()
        for name in epochs
        if (reason := _difference(name, epochs))
    }
    hint = "compare the loss in its events.jsonl with the others'; it may train differently"
    return {
        name: (ReportWarning("loss or accuracy differs from the others", differing[name], hint),)
        for name in differing
    }


def _workload(record: Record, epoch: Epoch) -> str:
    """A key that is equal for results that must agree."""
    return json.dumps(
        [record.workload.model_dump(), record.device, record.seed, epoch.epoch], sort_keys=True
    )


def _last_epoch(runs: Sequence[Record]) -> Epoch | None:
    found = (run.epochs[-1] for run in runs if run.status == "ok" and run.epochs)
    return next(found, None)


def _difference(name: str, epochs: Mapping[str, Epoch]) -> str | None:
    """How a trial differs from the median of all; None where chance explains the difference.

    Two trials are compared with each other, because neither is known to be right.
    """
    own = epochs[name]
    others = [e for other, e in epochs.items() if other != name or len(epochs) != 2]
    if not own.test_samples:
        return None
    accuracy = median(epoch.test_accuracy for epoch in others)
    loss = median(epoch.test_loss for epoch in others)
    loss_error = median(epoch.test_loss_error or math.inf for epoch in others)
    # The variance of a proportion; never 0, even where all answers are right.
    variance = max(accuracy * (1 - accuracy), 1 / own.test_samples) / own.test_samples
    if abs(own.test_accuracy - accuracy) > THRESHOLD * math.sqrt(2 * variance):
        return f"accuracy {own.test_accuracy:.2%}, median {accuracy:.2%}"
    if abs(own.test_loss - loss) > THRESHOLD * math.sqrt(2) * loss_error:
        return f"test loss {own.test_loss:.3g}, median {loss:.3g}"
    return None
