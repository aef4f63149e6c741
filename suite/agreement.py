"""Whether the frameworks of a workload learn alike: loss and accuracy beside each other. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from statistics import median

from suite.checks import Doubt
from suite.records import Epoch, Record

# Standard errors of the difference between two results on test sets of that size. Seeds of one
# framework are off their median by at most 1.3 (docs/method.md).
CHANCE = 4
SAME = ("model", "dataset", "mode", "batch_size", "precision", "input", "device", "seed")


def warnings(trials: Mapping[str, Sequence[Record]]) -> dict[str, tuple[Doubt, ...]]:
    """By trial, what stands apart from the other trials of the same workload."""
    workloads: dict[str, dict[str, Epoch]] = {}
    for name, runs in trials.items():
        if found := _last_epoch(runs):
            workloads.setdefault(_workload(runs[0], found), {})[name] = found
    apart = {
        name: reason
        for epochs in workloads.values()
        for name in epochs
        if (reason := _apart(name, epochs))
    }
    hint = "compare the loss in its events.jsonl with the others'; it may not learn the same"
    return {name: (Doubt("learns otherwise than the others", apart[name], hint),) for name in apart}


def _workload(record: Record, epoch: Epoch) -> str:
    fields = [getattr(record, field) for field in SAME]
    return json.dumps([*fields, record.optimizer, epoch.epoch])


def _last_epoch(runs: Sequence[Record]) -> Epoch | None:
    found = (run.epochs[-1] for run in runs if run.status == "ok" and run.epochs)
    return next(found, None)


def _apart(name: str, epochs: Mapping[str, Epoch]) -> str | None:
    """By how much a trial is off the median of all; None where chance explains it.

    Of two, each is compared with the other: none is known to be right.
    """
    own = epochs[name]
    others = [e for other, e in epochs.items() if other != name or len(epochs) != 2]
    if not own.test_samples:
        return None
    accuracy = median(epoch.test_accuracy for epoch in others)
    loss = median(epoch.test_loss for epoch in others)
    loss_error = median(epoch.test_loss_error or math.inf for epoch in others)
    # Of a share of right answers, each of them right by chance; not 0 where all are right.
    variance = max(accuracy * (1 - accuracy), 1 / own.test_samples) / own.test_samples
    if abs(own.test_accuracy - accuracy) > CHANCE * math.sqrt(2 * variance):
        return f"accuracy {own.test_accuracy:.2%}, median {accuracy:.2%}"
    if abs(own.test_loss - loss) > CHANCE * math.sqrt(2) * loss_error:
        return f"test loss {own.test_loss:.3g}, median {loss:.3g}"
    return None
