"""Training in libraries of symbolic graphs: PyTensor, and Theano, which it continues.

Both compile expressions of shared variables. They have no optimizers and no steps: those are here,
written with operators that both have.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from . import schedules
from .protocol import SLOTS, Array, State, Trial, Weights


class Session(ABC):
    """Every function is compiled in its first call, so that a run compiles only what it calls."""

    name: str  # of the library, for messages
    ops: Any  # its functions of tensors

    def __init__(self, trial: Trial, weights: Weights) -> None:
        self._trial = trial
        self._parameters = self._shared_all(weights)
        self._statistics = self._shared_all(_initial(trial.statistics))
        self._steps = self._shared(np.asarray(0, np.int64), "steps")
        optimizer = trial.optimizer["name"]
        if optimizer not in SLOTS:
            raise NotImplementedError(f"{self.name} module has no optimizer {optimizer!r}")
        zeros = {name: np.zeros(each.shape) for name, each in weights.items()}
        self._slots = {slot: self._shared_all(zeros) for slot in SLOTS[optimizer]}

    @abstractmethod
    def _shared(self, value: Array, name: str) -> Any:
        """A shared variable."""

    @abstractmethod
    def _graph(self, tensors: Mapping[str, Any], *, training: bool) -> Any:
        """The library's `layers.Graph` of the trial."""

    @abstractmethod
    def _labels_and_loss(self, graph: Any) -> tuple[Any, Any]:
        """The labels of the graph's logits, and the mean of the trial's loss."""

    @abstractmethod
    def _gradients(self, loss: Any, parameters: list[Any]) -> list[Any]:
        """The gradient of the loss for each parameter."""

    @abstractmethod
    def _double(self, value: float) -> Any:
        """A constant in float64."""

    @abstractmethod
    def _function(self, inputs: list[Any], outputs: Any, updates: Mapping[Any, Any]) -> Any:
        """A compiled function, which trusts the type of its inputs."""

    def put(self, inputs: Any, labels: Any) -> tuple[Array, Array]:
        return inputs, labels

    def train_step(self, batch: tuple[Array, Array]) -> Array:
        loss: Array = self._train(*batch)
        return loss

    def synchronize(self) -> None:  # noqa: B027  # for both libraries
        """On the CPU every step is done when it returns."""

    def read(self, loss: Array) -> float:
        return float(loss)

    def logits(self, inputs: Array) -> Array:
        logits: Array = self._infer(inputs)
        return logits

    def gradients(self, inputs: Array, labels: Array) -> tuple[Array, Weights]:
        logits, *gradients = self._differentiate(inputs, labels)
        return logits, dict(zip(self._parameters, gradients))

    def weights(self) -> Weights:
        return _values(self._parameters)

    def statistics(self) -> Weights:
        return _values(self._statistics)

    def optimizer_state(self) -> dict[str, Weights]:
        return {slot: _values(named) for slot, named in self._slots.items()}

    def step_count(self) -> int:
        return int(self._steps.get_value())

    def restore(self, state: State) -> None:
        raise NotImplementedError(f"{self.name} is not a reference framework")

    @cached_property
    def _train(self) -> Any:
        graph, labels, loss, gradients = self._training()
        return self._function(
            [graph.inputs, labels], loss, graph.updates | self._optimizer(gradients)
        )

    @cached_property
    def _differentiate(self) -> Any:
        graph, labels, _, gradients = self._training()
        return self._function([graph.inputs, labels], [graph.logits, *gradients], {})

    @cached_property
    def _infer(self) -> Any:
        graph = self._graph(self._parameters | self._statistics, training=False)
        return self._function([graph.inputs], graph.logits, {})

    def _training(self) -> tuple[Any, Any, Any, list[Any]]:
        """The graph in training mode, its labels, its mean loss, and the loss's gradients."""
        graph = self._graph(self._parameters | self._statistics, training=True)
        labels, loss = self._labels_and_loss(graph)
        return graph, labels, loss, self._gradients(loss, list(self._parameters.values()))

    def _optimizer(self, gradients: list[Any]) -> dict[Any, Any]:
        """The new values of the parameters, the slots and the number of steps."""
        found, rate = {self._steps: self._steps + 1}, self._rate()
        exempt = self._trial.exempt
        for (name, parameter), gradient in zip(self._parameters.items(), self._clipped(gradients)):
            slots = {slot: values[name] for slot, values in self._slots.items()}
            decays = name not in exempt
            found.update(self._of_parameter(parameter, gradient, slots, rate, decays=decays))
        return found

    def _rate(self) -> Any:
        """The learning rate of this step."""
        options = self._trial.optimizer
        rate, schedule = options["learning_rate"], options.get("schedule")
        if not schedule:
            return rate
        before = self._steps.astype(self._trial.dtype)
        return (rate * schedules.share(schedule, before, self.ops)).astype(self._trial.dtype)

    def _clipped(self, gradients: list[Any]) -> list[Any]:
        """The gradients, scaled to the largest norm where theirs is more."""
        largest = self._trial.optimizer.get("clip_norm")
        if largest is None:
            return gradients
        norm = sum((each**2).sum() for each in gradients) ** 0.5
        factor = self.ops.minimum(largest / norm, 1.0).astype(self._trial.dtype)
        return [each * factor for each in gradients]

    def _of_parameter(
        self, weight: Any, gradient: Any, slots: dict[str, Any], rate: Any, *, decays: bool
    ) -> dict[Any, Any]:
        """The formulas of docs/reference/optimizers.md."""
        options = self._trial.optimizer
        name = options["name"]
        if name == "sgd":
            return {weight: weight - rate * gradient}
        if name == "momentum":
            velocity = options["momentum"] * slots["velocity"] + gradient
            step = (
                gradient + options["momentum"] * velocity
                if options.get("nesterov", False)
                else velocity
            )
            return {slots["velocity"]: velocity, weight: weight - rate * step}
        if name == "rmsprop":
            second = _mean(options["decay"], slots["second_moment"], gradient**2)
            scaled = gradient / (second + options["epsilon"]) ** 0.5
            return {slots["second_moment"]: second, weight: weight - rate * scaled}
        first = _mean(options["beta1"], slots["first_moment"], gradient)
        second = _mean(options["beta2"], slots["second_moment"], gradient**2)
        largest = (second / self._correction("beta2")) ** 0.5 + options["epsilon"]
        decay = options["weight_decay"] if name in ("adamw", "lamb") and decays else 0.0
        update = (first / self._correction("beta1")) / largest
        if decay:
            update = update + decay * weight
        if name == "lamb" and decays:
            update = self._trust_ratio(weight, update) * update
        changed = {slots["first_moment"]: first, slots["second_moment"]: second}
        return {**changed, weight: weight - rate * update}

    def _trust_ratio(self, weight: Any, update: Any) -> Any:
        """The norm of the weights over that of their update; 1 where one of them is 0."""
        of_weight, of_update = ((each**2).sum() ** 0.5 for each in (weight, update))
        is_zero = self.ops.eq(self.ops.minimum(of_weight, of_update), 0)
        ratio = self.ops.switch(is_zero, 1.0, of_weight / of_update)
        return ratio.astype(self._trial.dtype)

    def _correction(self, beta: str) -> Any:
        """1 - beta^t for the present step t, computed in float64."""
        power = self._double(self._trial.optimizer[beta]) ** (self._steps + 1)
        return (1 - power).astype(self._trial.dtype)

    def _shared_all(self, values: Weights) -> dict[str, Any]:
        return {
            name: self._shared(each.astype(self._trial.dtype), name)
            for name, each in values.items()
        }


def of_numbers(
    loss: str, logits: Any, targets: Any, ops: Any, softplus: Callable[[Any], Any]
) -> Any:
    """The losses of outputs whose targets are numbers, or 0 and 1; softplus is log(1 + exp(x))."""
    if loss == "mean_squared_error":
        return (logits - targets) ** 2
    if loss == "huber":
        errors = abs(logits - targets)
        small = ops.minimum(errors, 1)
        return small**2 / 2 + errors - small
    return softplus(logits) - targets * logits


def weighted_mean(losses: Any, weights: Any) -> Any:
    """The mean of the labels' losses, each with the weight of its class."""
    return (losses * weights).sum() / weights.sum()


def _mean(decay: float, old: Any, new: Any) -> Any:
    """The moving mean of which `decay` is the share of the old value."""
    return decay * old + (1 - decay) * new


def _values(named: dict[str, Any]) -> Weights:
    return {name: each.get_value() for name, each in named.items()}


def _initial(statistics: list[dict[str, Any]]) -> Weights:
    """Means of 0 and variances of 1."""
    return {
        each["name"]: np.full(each["shape"], each["name"].endswith(".variance"))
        for each in statistics
    }
