"""TensorFlow: one traced function whose weights are constants of its graph."""

from __future__ import annotations

import tensorflow as tf

from ...layouts import input_form, to_channels_last
from ...protocol import Array, Trial, Weights
from . import device as tensorflow_device
from .layers import Pass
from .session import LAYOUT, device, lowered, memory, version

__all__ = ["LAYOUT", "Predictor", "device", "memory", "version"]


class Predictor:
    """A model in its inference form."""

    def __init__(self, trial: Trial, weights: Weights, statistics: Weights) -> None:
        if trial.variant == "steps":
            raise NotImplementedError(
                "tensorflow:steps differs from tensorflow:graph only in training"
            )
        if trial.dtype == "float64":
            raise NotImplementedError("TensorFlow is not a reference framework")
        tensorflow_device.prepare(trial)
        values = {**to_channels_last(trial, weights), **statistics}

        def logits(inputs: tf.Tensor) -> tf.Tensor:
            # Made here, they are constants of the graph. TensorFlow's optimizer Grappler then folds
            # them, and fuses a convolution with its batch norm, bias and activation. Eager tensors
            # from outside would be arguments of the graph.
            known = {name: tf.constant(value, trial.dtype) for name, value in values.items()}
            return lowered(trial, known)(inputs, Pass(training=False))

        compiled = tf.function(logits, jit_compile=trial.variant == "xla")
        # The concrete function is called itself: a tf.function selects it anew in each call.
        self._logits = compiled.get_concrete_function(tf.TensorSpec(*input_form(trial, LAYOUT)))

    def predict(self, inputs: Array) -> Array:
        """The logits (batch_size, classes) of one batch, from and to host memory."""
        logits: Array = self._logits(tf.constant(inputs)).numpy()
        return logits
