"""The suite's optimizers that differ from Caffe's, in NumPy on Caffe's blobs.

Caffe's Adam adds epsilon before the bias of the second moment is corrected, its RMSProp adds it
outside the root; it has no AdamW.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...protocol import SLOTS, Array, Trial, Weights

NAMES = ("adam", "adamw", "rmsprop")  # the solver has the others


class Optimizer:
    """One step for all parameters; the formulas are those of docs/reference/optimizers.md."""

    def __init__(self, trial: Trial, parameters: dict[str, Any]) -> None:
        self._options = trial.optimizer
        self._parameters = parameters
        self.steps = 0
        self.slots: dict[str, Weights] = {
            slot: {name: np.zeros_like(blob.data) for name, blob in parameters.items()}
            for slot in SLOTS[trial.optimizer["name"]]
        }

    def step(self) -> None:
        """Change the parameters by their gradients."""
        self.steps += 1
        for name, blob in self._parameters.items():
            slots = {slot: values[name] for slot, values in self.slots.items()}
            self._update(blob.data, blob.diff, slots)

    def _update(self, weight: Array, gradient: Array, slots: Weights) -> None:
        options = self._options
        name, rate, second = options["name"], options["learning_rate"], slots["second_moment"]
        if name == "rmsprop":
            _mean(second, gradient**2, options["decay"])
            weight -= rate * gradient / np.sqrt(second + options["epsilon"])
            return
        first = slots["first_moment"]
        _mean(first, gradient, options["beta1"])
        _mean(second, gradient**2, options["beta2"])
        corrections = (1 - options[beta] ** self.steps for beta in ("beta1", "beta2"))
        of_first, of_second = corrections
        if name == "adamw":
            weight *= 1 - rate * options["weight_decay"]
        largest = np.sqrt(second / of_second) + options["epsilon"]
        weight -= rate * (first / of_first) / largest


def _mean(mean: Array, new: Array, decay: float) -> None:
    """Update a moving mean of which `decay` is the share of the old value."""
    mean *= decay
    mean += (1 - decay) * new
