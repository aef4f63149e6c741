"""Caffe for inference: a network in phase TEST."""

from __future__ import annotations

import tempfile
from pathlib import Path

from ...protocol import Array, Trial, Weights
from . import device as caffe_device
from . import norms
from .session import LAYOUT, device, memory, network, parameters, predicted, version

__all__ = ["LAYOUT", "Predictor", "device", "memory", "version"]


class Predictor:
    def __init__(self, trial: Trial, weights: Weights, statistics: Weights) -> None:
        caffe_device.prepare(trial)
        self._net = network(trial, Path(tempfile.mkdtemp(prefix="caffe-")))
        for name, blob in parameters(trial, self._net).items():
            blob.data[...] = weights[name]
        norms.set_for_inference(trial, self._net, statistics)

    def predict(self, inputs: Array) -> Array:
        return predicted(self._net, inputs)
