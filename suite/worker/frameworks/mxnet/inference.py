"""MXNet: the hybridized block; on a CPU its graph is partitioned for oneDNN."""

from __future__ import annotations

import mxnet as mx

from ...layouts import input_form
from ...protocol import Array, Trial, Weights
from .session import LAYOUT, build, context, device, load, memory, on_device, version

__all__ = ["LAYOUT", "Predictor", "device", "memory", "version"]
# MXNet's name for the partition that fuses convolutions and dense layers with what follows them.
ONEDNN = "MKLDNN"


class Predictor:
    """A model in its inference form."""

    def __init__(self, trial: Trial, weights: Weights, statistics: Weights) -> None:
        if trial.dtype == "float64":
            raise NotImplementedError("MXNet is not a reference framework")
        self._context = context(trial)
        self._model, parameters = build(trial)
        load(parameters, {**weights, **statistics}, trial)
        static = {"static_alloc": True, "static_shape": True}
        if trial.device == "cpu":
            # Batch norms become part of the weights of the convolutions before them.
            shape, dtype = input_form(trial, LAYOUT)
            self._model.optimize_for(mx.nd.zeros(shape, dtype=dtype), backend=ONEDNN, **static)
        else:
            self._model.hybridize(**static)

    def predict(self, inputs: Array) -> Array:
        """The logits (batch_size, classes) of one batch, from and to host memory."""
        logits: Array = self._model(on_device(inputs, self._context)).asnumpy()
        return logits
