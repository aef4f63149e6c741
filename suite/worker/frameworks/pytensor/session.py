"""PyTensor: graphs compiled by Numba, its default, with BLAS from SciPy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt

from ... import symbolic
from ...protocol import Array, Trial, Weights
from . import device as pytensor_device
from .layers import Graph

LAYOUT = "NCHW"


def version() -> str:
    return str(pytensor.__version__)


device = pytensor_device.describe
memory = pytensor_device.memory


class Session(symbolic.Session):
    name, ops = "PyTensor", pt

    def __init__(self, trial: Trial, weights: Weights) -> None:
        pytensor_device.prepare(trial)
        super().__init__(trial, weights)

    def _shared(self, value: Array, name: str) -> Any:
        return pytensor.shared(value, name, shape=value.shape)  # the compiler knows the shape

    def _graph(self, tensors: Mapping[str, Any], *, training: bool) -> Graph:
        return Graph(self._trial, tensors, training=training)

    def _labels_and_loss(self, graph: Graph) -> tuple[Any, Any]:
        logits, of = graph.logits, self._trial.loss
        if of != "cross_entropy":
            targets = pt.tensor("labels", shape=logits.type.shape, dtype=self._trial.dtype)
            return targets, symbolic.of_numbers(of, logits, targets, pt, pt.softplus).mean()
        labels = pt.tensor("labels", shape=graph.logits.type.shape[:-1], dtype="int32")
        count, classes = math.prod(labels.type.shape), graph.logits.type.shape[-1]
        rows = pt.special.log_softmax(graph.logits.reshape((count, classes)), axis=1)
        flat = labels.reshape((count,))
        losses = -rows[np.arange(count), flat]
        if of_classes := self._trial.class_weights:
            weights = pt.constant(np.asarray(of_classes, self._trial.dtype))[flat]
            return labels, symbolic.weighted_mean(losses, weights)
        loss = losses.mean()
        smoothing = self._trial.label_smoothing
        if not smoothing:
            return labels, loss
        return labels, (1 - smoothing) * loss - smoothing * rows.mean()

    def _gradients(self, loss: Any, parameters: list[Any]) -> list[Any]:
        return list(pt.grad(loss, parameters))

    def _double(self, value: float) -> Any:
        return pt.constant(value, dtype="float64")

    def _function(self, inputs: list[Any], outputs: Any, updates: Mapping[Any, Any]) -> Any:
        # Inputs have the type of the graph, so that nothing has to be checked or converted.
        return pytensor.function(inputs, outputs, updates=updates, mode="NUMBA", trust_input=True)
