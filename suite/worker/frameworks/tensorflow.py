"""TensorFlow without Keras: tf.function with oneDNN, and the same compiled by XLA."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from ..layouts import paddings, same_paddings, to_canonical, to_channels_last
from ..protocol import Array, Trial, Weights

LAYOUT = "NHWC"


@dataclass
class Pass:
    """One way through the model: in which mode, and what it would make of the statistics."""

    training: bool
    updates: list[tuple[Any, Any]] = field(default_factory=list)  # variable, value to go towards


Layer = Callable[[Any, Pass], Any]
Variables = dict[str, Any]


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
        self._statistics = {each["name"]: _statistic(each, trial) for each in trial.statistics}
        known = {**self._variables, **self._statistics}
        self._model = _series(trial.layers, known, trial.batch_size)
        self._optimizer = Optimizer(trial, list(self._variables.values()))
        compiled = tf.function(jit_compile=trial.variant == "xla", reduce_retracing=False)
        self._train_step = compiled(self._step)
        self._logits = compiled(lambda inputs: self._model(inputs, Pass(training=False)))
        self._gradients = compiled(lambda x, y: self._backward(x, y, Pass(training=True))[1:])

    def put(self, inputs: Array, labels: Array) -> tuple[Any, Any]:
        return tf.constant(inputs), tf.constant(labels)

    def train_step(self, batch: tuple[Any, Any]) -> Any:
        return self._train_step(*batch)

    def synchronize(self) -> None:
        """Wait for the device; on the CPU every step is done when it returns."""
        tf.test.experimental.sync_devices()

    def read(self, loss: Any) -> float:
        return float(loss)

    def logits(self, inputs: Array) -> Array:
        logits: Array = self._logits(tf.constant(inputs)).numpy()
        return logits

    def gradients(self, inputs: Array, labels: Array) -> tuple[Array, Weights]:
        logits, gradients = self._gradients(*self.put(inputs, labels))
        named = {name: g.numpy() for name, g in zip(self._variables, gradients)}
        return logits.numpy(), to_canonical(self._trial, named)

    def weights(self) -> Weights:
        return to_canonical(self._trial, {name: v.numpy() for name, v in self._variables.items()})

    def statistics(self) -> Weights:
        return {name: variable.numpy() for name, variable in self._statistics.items()}

    def _backward(self, inputs: Any, labels: Any, through: Pass) -> tuple[Any, Any, list[Any]]:
        with tf.GradientTape() as tape:
            logits = self._model(inputs, through)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_mean(losses)
        return loss, logits, tape.gradient(loss, list(self._variables.values()))

    def _step(self, inputs: Any, labels: Any) -> Any:
        through = Pass(training=True)
        loss, _, gradients = self._backward(inputs, labels, through)
        self._optimizer.apply(gradients)
        for variable, change in through.updates:
            variable.assign_add(change)
        return loss


def _statistic(named: dict[str, Any], trial: Trial) -> Any:
    initial = tf.ones if named["name"].endswith(".variance") else tf.zeros
    return tf.Variable(initial(named["shape"], trial.precision), trainable=False)


def _series(layers: list[dict[str, Any]], variables: Variables, batch_size: int) -> Layer:
    lowered = [_lower(layer, variables, batch_size) for layer in layers]

    def run(values: Any, through: Pass) -> Any:
        for layer in lowered:
            values = layer(values, through)
        return values

    return run


def _lower(layer: dict[str, Any], variables: Variables, batch_size: int) -> Layer:
    kind, name = layer["kind"], layer["name"]
    own = {key.split(".")[1]: v for key, v in variables.items() if key.split(".")[0] == name}
    if "branches" in layer:
        branches = [_series(branch, variables, batch_size) for branch in layer["branches"]]
        join = tf.add_n if kind == "add" else lambda results: tf.concat(results, -1)
        return lambda x, through: join([branch(x, through) for branch in branches])
    if kind == "batch_norm":
        return _batch_norm(layer, own, batch_size)
    if kind == "dropout":
        rate = layer["rate"]
        return lambda x, through: tf.nn.dropout(x, rate) if through.training else x
    function = _function(layer, own)
    return lambda x, through: function(x)


def _function(layer: dict[str, Any], own: Variables) -> Callable[[Any], Any]:
    """A layer that does the same in training and in inference."""
    kind = layer["kind"]
    weight, bias = own.get("weight"), own.get("bias")
    if kind == "conv2d":
        strides, padding = layer["stride"], _padding(layer)
        return lambda x: _add_bias(tf.nn.conv2d(x, weight, strides, padding), bias)
    if kind == "max_pool2d":
        size, strides, padding = layer["kernel"], layer["stride"], _padding(layer)
        if padding == "VALID" or paddings(layer) == same_paddings(layer):
            word = "VALID" if padding == "VALID" else "SAME"
            return lambda x: tf.nn.max_pool2d(x, size, strides, word)
        # Padded by itself: XLA takes only the two words.
        return lambda x: tf.nn.max_pool2d(
            tf.pad(x, padding, constant_values=x.dtype.min), size, strides, "VALID"
        )
    if kind == "avg_pool2d":
        size, strides, padding = layer["kernel"], layer["stride"], _padding(layer)
        if padding == "VALID":
            return lambda x: tf.nn.avg_pool2d(x, size, strides, padding)
        # Padded by itself: within avg_pool2d padding would not count in the divisor.
        return lambda x: tf.nn.avg_pool2d(tf.pad(x, padding), size, strides, "VALID")
    if kind == "dense":
        return lambda x: _add_bias(tf.matmul(x, weight), bias)
    if kind == "layer_norm":
        return lambda x: _layer_norm(x, weight, bias, layer["epsilon"])
    if kind == "flatten":
        features = math.prod(layer["input_shape"])
        return lambda x: tf.reshape(x, [-1, features])
    if kind == "tokens":
        channels, height, width = layer["input_shape"]
        return lambda x: tf.reshape(x, [-1, height * width, channels])
    if kind == "class_token":
        shape = [1, layer["features"]]
        return lambda x: tf.concat([tf.broadcast_to(weight, [tf.shape(x)[0], *shape]), x], 1)
    if kind == "position_embedding":
        return lambda x: x + weight
    if kind == "self_attention":
        return lambda x: _self_attention(x, layer, own)
    if kind == "lstm":
        return lambda x: _lstm(x, layer, own)
    if kind in SIMPLE:
        return SIMPLE[kind]
    raise NotImplementedError(f"TensorFlow module has no layer {kind!r}")


SIMPLE: dict[str, Callable[[Any], Any]] = {
    "relu": tf.nn.relu,
    "tanh": tf.nn.tanh,
    "gelu": tf.nn.gelu,
    "global_avg_pool2d": lambda images: tf.reduce_mean(images, [1, 2]),
    "rows": lambda images: tf.squeeze(images, 3),
    "first_token": lambda sequence: sequence[:, 0],
}


def _padding(layer: dict[str, Any]) -> Any:
    pairs = paddings(layer)
    if not any(map(any, pairs)):
        return "VALID"
    return [[0, 0], *map(list, pairs), [0, 0]]


def _add_bias(values: Any, bias: Any) -> Any:
    # A plain sum: its gradient is the faster one on a CPU (LeNet trained 2 % faster than with
    # tf.nn.bias_add).
    return values if bias is None else values + bias


def _batch_norm(layer: dict[str, Any], own: Variables, batch_size: int) -> Layer:
    values = batch_size * math.prod(layer["input_shape"][1:])
    biased = (values - 1) / values  # the fused operation returns the unbiased variance

    def run(images: Any, through: Pass) -> Any:
        moments = {} if through.training else {"mean": own["mean"], "variance": own["variance"]}
        normed, mean, variance = tf.compat.v1.nn.fused_batch_norm(
            images,
            own["weight"],
            own["bias"],
            **moments,
            epsilon=layer["epsilon"],
            is_training=through.training,
        )
        for running, batch in ((own["mean"], mean), (own["variance"], biased * variance)):
            through.updates.append((running, layer["momentum"] * (batch - running)))
        return normed

    return run


def _layer_norm(values: Any, weight: Any, bias: Any, epsilon: float) -> Any:
    mean, variance = tf.nn.moments(values, [-1], keepdims=True)
    return tf.nn.batch_normalization(values, mean, variance, bias, weight, epsilon)


def _self_attention(sequence: Any, layer: dict[str, Any], own: Variables) -> Any:
    length, features = layer["input_shape"]
    heads = layer["heads"]
    parts = tf.matmul(sequence, own["in_weight"]) + own["in_bias"]
    parts = tf.reshape(parts, [-1, length, 3, heads, features // heads])
    queries, keys, values = tf.unstack(tf.transpose(parts, [2, 0, 3, 1, 4]))
    scores = tf.matmul(queries, keys, transpose_b=True) / math.sqrt(features // heads)
    mixed = tf.transpose(tf.matmul(tf.nn.softmax(scores), values), [0, 2, 1, 3])
    return tf.matmul(tf.reshape(mixed, [-1, length, features]), own["out_weight"]) + own["out_bias"]


def _lstm(sequence: Any, layer: dict[str, Any], own: Variables) -> Any:
    """Unrolled: TensorFlow's own LSTM is Keras's."""
    inputs = tf.matmul(sequence, own["input_weight"]) + own["bias"]
    hidden = cell = tf.zeros([tf.shape(sequence)[0], layer["hidden"]], sequence.dtype)
    for step in tf.unstack(inputs, axis=1):
        gates = tf.split(step + tf.matmul(hidden, own["hidden_weight"]), 4, -1)
        admit, keep, candidate, show = gates
        cell = tf.sigmoid(keep) * cell + tf.sigmoid(admit) * tf.tanh(candidate)
        hidden = tf.sigmoid(show) * tf.tanh(cell)
    return hidden


# The fused kernels under TensorFlow's own optimizers; the slots and numbers that each takes.
KERNELS: dict[str, tuple[Any, tuple[str, ...], dict[str, str]]] = {
    "sgd": (tf.raw_ops.ResourceApplyGradientDescent, (), {"alpha": "learning_rate"}),
    "momentum": (
        tf.raw_ops.ResourceApplyMomentum,
        ("accum",),
        {"lr": "learning_rate", "momentum": "momentum"},
    ),
    "adam": (
        tf.raw_ops.ResourceApplyAdam,
        ("m", "v"),
        {"lr": "learning_rate", "beta1": "beta1", "beta2": "beta2"},
    ),
    "rmsprop": (
        tf.raw_ops.ResourceApplyRMSProp,
        ("ms", "mom"),
        {"lr": "learning_rate", "rho": "decay", "epsilon": "epsilon"},
    ),
}


class Optimizer:
    def __init__(self, trial: Trial, variables: list[Any]) -> None:
        how, dtype = trial.optimizer, trial.precision
        self._name = how["name"]
        if self._name not in KERNELS:
            raise NotImplementedError(f"TensorFlow module has no optimizer {self._name!r}")
        self._kernel, slots, numbers = KERNELS[self._name]
        self._variables = variables
        self._slots = [{s: tf.Variable(tf.zeros_like(v)) for s in slots} for v in variables]
        self._numbers = {key: tf.constant(how[number], dtype) for key, number in numbers.items()}
        self._gradient = "delta" if self._name == "sgd" else "grad"
        if self._name == "rmsprop":
            self._numbers["momentum"] = tf.constant(0, dtype)
        if self._name == "adam":
            self._epsilon = tf.constant(how["epsilon"], dtype)
            # beta to the power of the step's number
            self._powers = {key: tf.Variable(self._numbers[key]) for key in ("beta1", "beta2")}

    def apply(self, gradients: list[Any]) -> None:
        numbers = {**self._numbers, **(self._adam_numbers() if self._name == "adam" else {})}
        for variable, slots, gradient in zip(self._variables, self._slots, gradients):
            handles = {name: slot.handle for name, slot in slots.items()}
            self._kernel(var=variable.handle, **handles, **numbers, **{self._gradient: gradient})
        if self._name == "adam":
            for key, power in self._powers.items():
                power.assign(power * self._numbers[key])

    def _adam_numbers(self) -> dict[str, Any]:
        # The kernel adds epsilon before it corrects the second moment's bias; an epsilon that this
        # correction makes right gives Kingma and Ba's first algorithm.
        powers = {f"{key}_power": power for key, power in self._powers.items()}
        return {**powers, "epsilon": self._epsilon * tf.sqrt(1 - self._powers["beta2"])}
