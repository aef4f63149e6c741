"""The suite's optimizers (docs/optimizers.md) as updates of shared variables; PyTensor has none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt

from ...protocol import Trial
from .variables import shared

SLOTS = {
    "sgd": (),
    "momentum": ("velocity",),
    "adam": ("first_moment", "second_moment"),
    "adamw": ("first_moment", "second_moment"),
    "rmsprop": ("second_moment",),
}


class Optimizer:
    """The state of the trial's optimizer: `slots` by parameter, and the number of `steps`."""

    def __init__(self, trial: Trial, parameters: Mapping[str, Any]) -> None:
        name = trial.optimizer["name"]
        if name not in SLOTS:
            raise NotImplementedError(f"PyTensor module has no optimizer {name!r}")
        self._options = trial.optimizer
        self._dtype = trial.dtype
        self._parameters = parameters
        self.steps = pytensor.shared(np.int64(0), "steps")
        self.slots = {slot: self._zeros() for slot in SLOTS[name]}

    def updates(self, gradients: Mapping[str, Any]) -> dict[Any, Any]:
        """The new values of the parameters, the slots and the number of steps."""
        found = {self.steps: self.steps + 1}
        for name, parameter in self._parameters.items():
            slots = {slot: values[name] for slot, values in self.slots.items()}
            found.update(self._of_parameter(parameter, gradients[name], slots))
        return found

    def _of_parameter(self, weight: Any, gradient: Any, slots: dict[str, Any]) -> dict[Any, Any]:
        options = self._options
        name, rate = options["name"], options["learning_rate"]
        if name == "sgd":
            return {weight: weight - rate * gradient}
        if name == "momentum":
            velocity = options["momentum"] * slots["velocity"] + gradient
            return {slots["velocity"]: velocity, weight: weight - rate * velocity}
        if name == "rmsprop":
            second = _mean(options["decay"], slots["second_moment"], gradient**2)
            scaled = gradient / pt.sqrt(second + options["epsilon"])
            return {slots["second_moment"]: second, weight: weight - rate * scaled}
        first = _mean(options["beta1"], slots["first_moment"], gradient)
        second = _mean(options["beta2"], slots["second_moment"], gradient**2)
        largest = pt.sqrt(second / self._correction("beta2")) + options["epsilon"]
        kept = weight * (1 - rate * options["weight_decay"]) if name == "adamw" else weight
        step = rate * (first / self._correction("beta1")) / largest
        return {
            slots["first_moment"]: first,
            slots["second_moment"]: second,
            weight: kept - step,
        }

    def _correction(self, beta: str) -> Any:
        """1 - beta^t for the present step t, computed in float64."""
        power = pt.constant(self._options[beta], dtype="float64") ** (self.steps + 1)
        return (1 - power).astype(self._dtype)

    def _zeros(self) -> dict[str, Any]:
        zeros = {name: np.zeros(each.type.shape) for name, each in self._parameters.items()}
        return shared(zeros, self._dtype)


def _mean(decay: float, old: Any, new: Any) -> Any:
    """The moving mean of which `decay` is the share of the old value."""
    return decay * old + (1 - decay) * new
