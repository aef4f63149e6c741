"""TensorFlow without Keras: tf.function with oneDNN, and the same compiled by XLA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ..layouts import to_canonical, to_channels_last
from ..protocol import Array, Trial, Weights

LAYOUT = "NHWC"

Layer = Callable[[Any], Any]


def version() -> str:
    return str(tf.__version__)


def device(trial: Trial) -> dict[str, Any]:
    threads = tf.config.threading.get_intra_op_parallelism_threads()
    gpus = tf.config.list_physical_devices("GPU") if trial.device != "cpu" else []
    kinds = [tf.config.experimental.get_device_details(gpu).get("device_name") for gpu in gpus]
    return {"name": trial.device, "threads": threads, "kind": kinds[0] if kinds else None}


class Session:
    def __init__(self, trial: Trial, weights: Weights) -> None:
        tf.config.threading.set_intra_op_parallelism_threads(len(trial.cpus))
        tf.config.threading.set_inter_op_parallelism_threads(len(trial.cpus))
        if trial.device == "cpu":
            tf.config.set_visible_devices([], "GPU")  # else it would compute there
        elif not tf.config.list_physical_devices("GPU"):
            raise RuntimeError("TensorFlow sees no GPU")
        tf.config.experimental.enable_tensor_float_32_execution(False)
        self._trial = trial
        self._variables = {
            name: tf.Variable(values, dtype=trial.precision, name=name)
            for name, values in to_channels_last(trial, weights).items()
        }
        self._layers = [_lower(layer, self._variables) for layer in trial.layers]
        compiled = tf.function(jit_compile=trial.variant == "xla", reduce_retracing=False)
        self._train_step = compiled(self._update)
        self._logits = compiled(self._forward)
        self._gradients = compiled(lambda images, labels: self._backward(images, labels)[1])

    def train_step(self, images: Array, labels: Array) -> Any:
        return self._train_step(tf.constant(images), tf.constant(labels))

    def synchronize(self) -> None:
        """Wait for the device; on the CPU every step is done when it returns."""
        tf.test.experimental.sync_devices()

    def read(self, loss: Any) -> float:
        return float(loss)

    def logits(self, images: Array) -> Array:
        logits: Array = self._logits(tf.constant(images)).numpy()
        return logits

    def gradients(self, images: Array, labels: Array) -> Weights:
        gradients = self._gradients(tf.constant(images), tf.constant(labels))
        named = zip(self._variables, gradients)
        return to_canonical(self._trial, {name: g.numpy() for name, g in named})

    def weights(self) -> Weights:
        return to_canonical(self._trial, {name: v.numpy() for name, v in self._variables.items()})

    def _forward(self, images: Any) -> Any:
        values = images
        for layer in self._layers:
            values = layer(values)
        return values

    def _backward(self, images: Any, labels: Any) -> tuple[Any, list[Any]]:
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, self._forward(images))
            loss = tf.reduce_mean(losses)
        return loss, tape.gradient(loss, list(self._variables.values()))

    def _update(self, images: Any, labels: Any) -> Any:
        loss, gradients = self._backward(images, labels)
        _apply(self._trial, list(self._variables.values()), gradients)
        return loss


def _lower(layer: dict[str, Any], variables: dict[str, Any]) -> Layer:
    kind, name = layer["kind"], layer["name"]
    kernel, bias = variables.get(f"{name}.weight"), variables.get(f"{name}.bias")
    if kind == "conv2d":
        strides, padding = layer["stride"], _padding(layer["padding"])
        return lambda x: _add_bias(tf.nn.conv2d(x, kernel, strides, padding), bias)
    if kind == "max_pool2d":
        size, strides, padding = layer["kernel"], layer["stride"], _padding(layer["padding"])
        return lambda x: tf.nn.max_pool2d(x, size, strides, padding)
    if kind == "flatten":
        features = layer["output_features"]
        return lambda x: tf.reshape(x, [-1, features])
    if kind == "dense":
        return lambda x: _add_bias(tf.matmul(x, kernel), bias)
    if kind == "relu":
        return tf.nn.relu
    raise NotImplementedError(f"TensorFlow module has no layer {kind!r}")


def _padding(padding: list[int]) -> Any:
    """Explicit numbers, never SAME, which pads unevenly with stride 2."""
    height, width = padding
    if height == width == 0:
        return "VALID"
    return [[0, 0], [height, height], [width, width], [0, 0]]


def _add_bias(values: Any, bias: Any) -> Any:
    # A plain sum: its gradient is the faster one on a CPU (LeNet trained 2 % faster than with
    # tf.nn.bias_add).
    return values if bias is None else values + bias


def _apply(trial: Trial, variables: list[Any], gradients: list[Any]) -> None:
    optimizer = trial.optimizer
    if optimizer["name"] != "sgd":
        raise NotImplementedError(f"TensorFlow module has no optimizer {optimizer['name']!r}")
    for variable, gradient in zip(variables, gradients):
        # The fused kernel under TensorFlow's own optimizers; assign_sub makes a product first.
        tf.raw_ops.ResourceApplyGradientDescent(
            var=variable.handle,
            alpha=tf.constant(optimizer["learning_rate"], variable.dtype),
            delta=gradient,
        )
