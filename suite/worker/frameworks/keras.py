"""Keras: a functional model, compiled and trained by the step that its `fit` runs, on any backend.

What differs between the backends is in `keras_<variant>.py` beside this.
"""

from __future__ import annotations

import importlib
import os
from operator import attrgetter
from typing import Any

import numpy as np

from ..layouts import paddings, same_paddings, to_canonical, to_channels_last
from ..protocol import Array, Trial, Weights
from . import VARIANT

BACKEND = os.environ.get(VARIANT, "tensorflow")
# Keras takes its backend once and for all when it is imported.
os.environ["KERAS_BACKEND"] = {"pytorch": "torch"}.get(BACKEND, BACKEND)

import keras  # noqa: E402
from keras import layers, ops  # noqa: E402

backend = importlib.import_module(f".keras_{BACKEND}", __package__)

# Keras's own default on every backend. PyTorch then computes in its channels-last memory.
LAYOUT = "NHWC"


def version() -> str:
    return str(keras.__version__)


def device(trial: Trial) -> dict[str, Any]:
    return {"name": trial.device, **backend.device(trial)}


class Session:
    def __init__(self, trial: Trial, weights: Weights) -> None:
        backend.prepare(trial)
        keras.config.set_floatx(trial.precision)
        self._trial = trial
        self._model, made = _model(trial)
        kinds = {layer["name"]: layer["kind"] for layer in trial.leaves()}
        self._variables = {name: _variables(name, made, kinds) for name in weights}
        self._statistics = {
            each["name"]: _variables(each["name"], made, kinds)[0] for each in trial.statistics
        }
        self._shapes: dict[str, tuple[int, ...]] = {}  # of a parameter's parts, were they matrices
        self._load(to_channels_last(trial, weights))
        # compile's other settings are Keras's defaults: jit_compile="auto" takes XLA with JAX and
        # with TensorFlow on a GPU (unless there is an LSTM), and nothing that compiles elsewhere.
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self._model.compile(_optimizer(trial), loss)
        self._model._loss_tracker = StepLoss(name="loss")
        self._model.optimizer.build(self._model.trainable_variables)
        self._model.make_train_function()
        self._probe: Any = None

    def put(self, inputs: Array, labels: Array) -> Any:
        return backend.put(inputs, labels)

    def train_step(self, batch: Any) -> Any:
        # The function that `fit` calls for each batch. What `fit` does besides is left out:
        # its callbacks and its progress bar, for which it would read the loss.
        return backend.step(self._model, batch)["loss"]

    def synchronize(self) -> None:
        backend.synchronize(self._model)

    def read(self, loss: Any) -> float:
        return float(loss)

    def logits(self, inputs: Array) -> Array:
        backend.settle(self._model)
        return np.asarray(self._model.predict_on_batch(inputs))

    def gradients(self, inputs: Array, labels: Array) -> tuple[Array, Weights]:
        """By a training step that puts each gradient where the weight was; then all goes back."""
        backend.settle(self._model)
        before = [np.array(variable) for variable in self._model.variables]
        if self._probe is None:
            self._probe = Probe(self._model.inputs, self._model.outputs)
            self._probe.compile(IntoWeights(), self._model.loss)
            self._probe.optimizer.build(self._probe.trainable_variables)
            self._probe.make_train_function()
        logits = backend.step(self._probe, self.put(inputs, labels))["logits"]
        backend.settle(self._probe)
        gradients = self._canonical()
        for variable, values in zip(self._model.variables, before):
            variable.assign(values)
        return ops.convert_to_numpy(logits), gradients

    def weights(self) -> Weights:
        return self._canonical()

    def statistics(self) -> Weights:
        backend.settle(self._model)
        return {name: np.array(variable) for name, variable in self._statistics.items()}

    def _load(self, weights: Weights) -> None:
        for name, values in weights.items():
            variables = self._variables[name]
            parts = np.split(values, len(variables), axis=-1)
            self._shapes[name] = parts[0].shape
            for variable, part in zip(variables, parts):
                variable.assign(part.reshape(variable.shape))

    def _canonical(self) -> Weights:
        backend.settle(self._model)
        named = {}
        for name, variables in self._variables.items():
            parts = [np.array(variable).reshape(self._shapes[name]) for variable in variables]
            named[name] = np.concatenate(parts, axis=-1)
        return to_canonical(self._trial, named)


class StepLoss(keras.metrics.Mean):
    """The loss of the last step, where `fit` shows the mean of those since the epoch began."""

    def update_state(self, values: Any, sample_weight: Any = None) -> None:
        self.reset_state()
        super().update_state(values, sample_weight)


class Probe(keras.Model):
    """The same layers; its training step gives the logits."""

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        return {"logits": y_pred}


class IntoWeights(keras.optimizers.Optimizer):
    def __init__(self) -> None:
        super().__init__(learning_rate=1.0)

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        self.assign(variable, gradient)


class ClassToken(layers.Layer):
    def build(self, shape: Any) -> None:
        self.token = self.add_weight(shape=shape[-1:], initializer="zeros", name="token")

    def call(self, sequence: Any) -> Any:
        first = ops.zeros_like(sequence[:, :1]) + self.token
        return ops.concatenate([first, sequence], 1)


class PositionEmbedding(layers.Layer):
    def build(self, shape: Any) -> None:
        self.table = self.add_weight(shape=shape[1:], initializer="zeros", name="table")

    def call(self, sequence: Any) -> Any:
        return sequence + self.table


def _model(trial: Trial) -> tuple[Any, dict[str, Any]]:
    """The model, and its layers by name."""
    shape = tuple(trial.architecture["input_shape"])
    made: dict[str, Any] = {}
    inputs = keras.Input((*shape[1:], shape[0]) if len(shape) == 3 else shape)
    return keras.Model(inputs, _series(trial.layers, inputs, made, trial.seed)), made


def _series(series: list[dict[str, Any]], values: Any, made: dict[str, Any], seed: int) -> Any:
    for layer in series:
        kind = layer["kind"]
        if "branches" in layer:
            ends = [_series(branch, values, made, seed) for branch in layer["branches"]]
            values = (layers.Add() if kind == "add" else layers.Concatenate())(ends)
            continue
        if kind in WINDOWS:
            values, padding = _padded(layer, values)
            each = _window(layer, padding)
        else:
            each = _lower(layer, seed)
        made[layer["name"]] = each
        values = each(values, values) if kind == "self_attention" else each(values)
    return values


WINDOWS = {
    "conv2d": layers.Conv2D,
    "max_pool2d": layers.MaxPooling2D,
    "avg_pool2d": layers.AveragePooling2D,
}


def _padded(layer: dict[str, Any], images: Any) -> tuple[Any, str]:
    """The images, padded where no word says how to, and the word for what is left to pad."""
    pairs, kind = paddings(layer), layer["kind"]
    if not any(map(any, pairs)):
        return images, "valid"
    if kind == "max_pool2d":
        if pairs == same_paddings(layer):
            return images, "same"
        lowest = float(np.finfo(np.float32).min)
        return ops.pad(images, [(0, 0), *pairs, (0, 0)], constant_values=lowest), "valid"
    if kind == "conv2d" and pairs == same_paddings(layer):
        return images, "same"
    # With "same" an average's divisor would leave the padding out.
    return layers.ZeroPadding2D(pairs)(images), "valid"


def _window(layer: dict[str, Any], padding: str) -> Any:
    sizes = {"strides": tuple(layer["stride"]), "padding": padding, "name": layer["name"]}
    kernel, make = tuple(layer["kernel"]), WINDOWS[layer["kind"]]
    if layer["kind"] != "conv2d":
        return make(kernel, **sizes)
    return make(layer["out_channels"], kernel, use_bias=layer["bias"], **sizes, **ZEROS)


# The weights come from the file, none need be drawn.
ZEROS = {"kernel_initializer": "zeros"}


def _lower(layer: dict[str, Any], seed: int) -> Any:
    kind, named = layer["kind"], {"name": layer["name"]}
    if kind == "dense":
        return layers.Dense(layer["out_features"], use_bias=layer["bias"], **ZEROS, **named)
    if kind == "batch_norm":
        numbers = {"momentum": 1 - layer["momentum"], "epsilon": layer["epsilon"]}
        return layers.BatchNormalization(**numbers, **named)
    if kind == "layer_norm":
        return layers.LayerNormalization(epsilon=layer["epsilon"], **named)
    if kind == "dropout":
        return layers.Dropout(layer["rate"], seed=seed, **named)
    if kind == "lstm":
        return layers.LSTM(layer["hidden"], recurrent_initializer="zeros", **ZEROS, **named)
    if kind == "self_attention":
        heads = layer["heads"]
        return layers.MultiHeadAttention(heads, layer["features"] // heads, **ZEROS, **named)
    if kind in ("rows", "tokens"):
        channels, height, width = layer["input_shape"]
        shape = (height, width) if kind == "rows" else (height * width, channels)
        return layers.Reshape(shape, **named)
    if kind in ("relu", "tanh", "gelu"):
        return layers.Activation(kind, **named)
    if kind in SIMPLE:
        return SIMPLE[kind](**named)
    raise NotImplementedError(f"Keras module has no layer {kind!r}")


SIMPLE: dict[str, Any] = {
    "flatten": layers.Flatten,
    "global_avg_pool2d": layers.GlobalAveragePooling2D,
    "class_token": ClassToken,
    "position_embedding": PositionEmbedding,
    "first_token": lambda name: layers.Lambda(lambda sequence: sequence[:, 0], name=name),
}
# Where a layer keeps a parameter: in these variables, one after the other.
PLACES: dict[str, dict[str, tuple[str, ...]]] = {
    "conv2d": {"weight": ("kernel",)},
    "dense": {"weight": ("kernel",)},
    "batch_norm": {
        "weight": ("gamma",),
        "bias": ("beta",),
        "mean": ("moving_mean",),
        "variance": ("moving_variance",),
    },
    "layer_norm": {"weight": ("gamma",), "bias": ("beta",)},
    "class_token": {"weight": ("token",)},
    "position_embedding": {"weight": ("table",)},
    "lstm": {
        "input_weight": ("cell.kernel",),
        "hidden_weight": ("cell.recurrent_kernel",),
        "bias": ("cell.bias",),
    },
    "self_attention": {
        "in_weight": ("query_dense.kernel", "key_dense.kernel", "value_dense.kernel"),
        "in_bias": ("query_dense.bias", "key_dense.bias", "value_dense.bias"),
        "out_weight": ("output_dense.kernel",),
        "out_bias": ("output_dense.bias",),
    },
}


def _variables(name: str, made: dict[str, Any], kinds: dict[str, str]) -> list[Any]:
    layer, role = name.split(".")
    places = PLACES[kinds[layer]].get(role, (role,))
    return [attrgetter(place)(made[layer]) for place in places]


def _optimizer(trial: Trial) -> Any:
    how = trial.optimizer
    name, rate = how["name"], how["learning_rate"]
    if name == "sgd":
        return keras.optimizers.SGD(rate)
    if name == "momentum":
        return keras.optimizers.SGD(rate, momentum=how["momentum"])
    if name == "adam":
        return _adam()(rate, how["beta1"], how["beta2"], how["epsilon"])
    if name == "rmsprop":
        return keras.optimizers.RMSprop(rate, rho=how["decay"], epsilon=how["epsilon"])
    raise NotImplementedError(f"Keras module has no optimizer {name!r}")


def _adam() -> Any:
    """A subclass of what Keras makes on this backend (on PyTorch it updates all variables at once,
    which a subclass of keras.optimizers.Adam would not).
    """

    class Adam(type(keras.optimizers.Adam())):  # type: ignore[misc]
        """Kingma and Ba's first algorithm.

        Keras's own adds epsilon before it corrects the second moment's bias; so it is given an
        epsilon that this correction makes right.
        """

        def apply(self, grads: Any, trainable_variables: Any = None) -> None:
            epsilon = self.epsilon
            step = ops.cast(self.iterations + 1, keras.config.floatx())
            self.epsilon = epsilon * ops.sqrt(1 - ops.power(self.beta_2, step))
            super().apply(grads, trainable_variables)
            self.epsilon = epsilon

    return Adam
