"""PyTensor: graphs compiled by Numba, its default, with BLAS from SciPy."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt

from ...protocol import Array, State, Trial, Weights
from . import device as pytensor_device
from .layers import Graph
from .optimizers import Optimizer
from .variables import shared

LAYOUT = "NCHW"


def version() -> str:
    return str(pytensor.__version__)


device = pytensor_device.describe
memory = pytensor_device.memory


class Session:
    """Every function is compiled in its first call, so that a run compiles only what it calls."""

    def __init__(self, trial: Trial, weights: Weights) -> None:
        pytensor_device.prepare(trial)
        self._trial = trial
        self._parameters = shared(weights, trial.dtype)
        self._statistics = shared(_initial(trial.statistics), trial.dtype)
        self._optimizer = Optimizer(trial, self._parameters)

    def put(self, inputs: Any, labels: Any) -> tuple[Array, Array]:
        return inputs, labels

    def train_step(self, batch: tuple[Array, Array]) -> Array:
        loss: Array = self._train(*batch)
        return loss

    def synchronize(self) -> None:
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
        return {slot: _values(named) for slot, named in self._optimizer.slots.items()}

    def step_count(self) -> int:
        return int(self._optimizer.steps.get_value())

    def restore(self, state: State) -> None:
        raise NotImplementedError("PyTensor is not a reference framework")

    @cached_property
    def _train(self) -> Any:
        graph, labels, loss, gradients = self._training()
        updates = graph.updates | self._optimizer.updates(gradients)
        return _function([graph.inputs, labels], loss, updates)

    @cached_property
    def _differentiate(self) -> Any:
        graph, labels, _, gradients = self._training()
        return _function([graph.inputs, labels], [graph.logits, *gradients.values()])

    @cached_property
    def _infer(self) -> Any:
        graph = Graph(self._trial, self._parameters | self._statistics, training=False)
        return _function([graph.inputs], graph.logits)

    def _training(self) -> tuple[Graph, Any, Any, dict[str, Any]]:
        """The graph in training mode, its labels, its mean loss, and the loss's gradients."""
        graph = Graph(self._trial, self._parameters | self._statistics, training=True)
        # Labels (N,) or (N, length): one for each row of logits.
        labels = pt.tensor("labels", shape=graph.logits.type.shape[:-1], dtype="int32")
        count, classes = math.prod(labels.type.shape), graph.logits.type.shape[-1]
        rows = pt.special.log_softmax(graph.logits.reshape((count, classes)), axis=1)
        loss = -rows[np.arange(count), labels.reshape((count,))].mean()
        gradients = pt.grad(loss, list(self._parameters.values()))
        return graph, labels, loss, dict(zip(self._parameters, gradients))


def _function(inputs: list[Any], outputs: Any, updates: dict[Any, Any] | None = None) -> Any:
    # Inputs have the type of the graph, so that nothing has to be checked or converted.
    return pytensor.function(inputs, outputs, updates=updates, mode="NUMBA", trust_input=True)


def _values(named: dict[str, Any]) -> Weights:
    return {name: each.get_value() for name, each in named.items()}


def _initial(statistics: list[dict[str, Any]]) -> Weights:
    """Means of 0 and variances of 1."""
    return {
        each["name"]: np.full(each["shape"], each["name"].endswith(".variance"))
        for each in statistics
    }
