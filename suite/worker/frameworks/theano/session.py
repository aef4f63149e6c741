"""Theano: graphs compiled to C++, with OpenBLAS from SciPy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import theano
import theano.tensor as tt

from ... import symbolic
from ...protocol import Array, Trial, Weights
from . import device as theano_device
from .layers import Graph

LAYOUT = "NCHW"


def version() -> str:
    return str(theano.__version__)


device = theano_device.describe
memory = theano_device.memory


class Session(symbolic.Session):
    name, ops = "Theano", tt

    def __init__(self, trial: Trial, weights: Weights) -> None:
        theano_device.prepare(trial)
        super().__init__(trial, weights)

    def _shared(self, value: Array, name: str) -> Any:
        return theano.shared(value, name)

    def _graph(self, tensors: Mapping[str, Any], *, training: bool) -> Graph:
        return Graph(self._trial, tensors, training=training)

    def _labels_and_loss(self, graph: Graph) -> tuple[Any, Any]:
        logits, loss = graph.logits, self._trial.loss
        if loss != "cross_entropy":
            targets = tt.matrix("labels", dtype=self._trial.dtype)
            return targets, symbolic.of_numbers(loss, logits, targets, tt, tt.nnet.softplus).mean()
        labels = tt.TensorType("int32", [False] * (graph.logits.ndim - 1))("labels")
        classes = self._trial.architecture["classes"]
        rows = graph.logits.reshape((-1, classes)) if graph.logits.ndim > 2 else graph.logits
        # Theano computes the softmax and its logarithm together, and so without overflow.
        shares = tt.nnet.softmax(rows)
        losses = tt.nnet.categorical_crossentropy(shares, labels.flatten())
        if of_classes := self._trial.class_weights:
            weights = tt.constant(np.asarray(of_classes, self._trial.dtype))[labels.flatten()]
            return labels, symbolic.weighted_mean(losses, weights)
        mean = losses.mean()
        smoothing = self._trial.label_smoothing
        if not smoothing:
            return labels, mean
        return labels, (1 - smoothing) * mean - smoothing * tt.log(shares).mean()

    def _gradients(self, loss: Any, parameters: list[Any]) -> list[Any]:
        return list(theano.grad(loss, parameters))

    def _double(self, value: float) -> Any:
        return tt.constant(np.float64(value))

    def _function(self, inputs: list[Any], outputs: Any, updates: Mapping[Any, Any]) -> Any:
        return compiled(inputs, outputs, updates)


def compiled(inputs: list[Any], outputs: Any, updates: Mapping[Any, Any]) -> Any:
    """A function whose inputs have the type of the graph, so that none is checked or converted."""
    function = theano.function(inputs, outputs, updates=list(updates.items()))
    function.trust_input = True
    return function
