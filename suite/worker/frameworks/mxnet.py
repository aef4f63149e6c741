"""MXNet: Gluon, hybridized with static memory and shapes, oneDNN underneath."""

from __future__ import annotations

import math
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from mxnet.gluon import nn

from ..protocol import Array, Trial, Weights

LAYOUT = "NCHW"


def version() -> str:
    return str(mx.__version__)


def device(trial: Trial) -> dict[str, Any]:
    # OpenMP takes as many threads as it finds CPUs, and MXNet does not tell: null.
    return {"name": trial.device, "threads": None, "kind": None}


class Session:
    def __init__(self, trial: Trial, weights: Weights) -> None:
        self._trial = trial
        self._context = mx.cpu() if trial.device == "cpu" else mx.gpu()
        self._model = _series(trial.layers)
        self._model.cast(trial.precision)
        self._model.initialize(ctx=self._context)
        known = self._model.collect_params()
        kinds = {layer["name"]: layer["kind"] for layer in trial.leaves()}
        self._parameters = {name: known[_name(name, kinds)] for name in weights}
        self._statistics = {
            each["name"]: known[_name(each["name"], kinds)] for each in trial.statistics
        }
        for name, values in weights.items():
            self._parameters[name].set_data(mx.nd.array(values, dtype=trial.precision))
        self._model.hybridize(static_alloc=True, static_shape=True)
        self._loss = gluon.loss.SoftmaxCrossEntropyLoss()
        self._loss.hybridize(static_alloc=True, static_shape=True)
        # One device needs no key-value store: without it the update runs where the gradients lie.
        self._trainer = gluon.Trainer(known, _optimizer(trial), kvstore=None)

    def put(self, inputs: Array, labels: Array) -> tuple[Any, Any]:
        return self._input(inputs), self._input(labels)

    def train_step(self, batch: tuple[Any, Any]) -> Any:
        losses, _ = self._forward_backward(*batch)
        self._trainer.step(self._trial.batch_size)
        return losses

    def synchronize(self) -> None:
        mx.nd.waitall()

    def read(self, loss: Any) -> float:
        return float(loss.mean().asscalar())

    def logits(self, inputs: Array) -> Array:
        logits: Array = self._model(self._input(inputs)).asnumpy()
        return logits

    def gradients(self, inputs: Array, labels: Array) -> tuple[Array, Weights]:
        before = {name: each.data().copy() for name, each in self._statistics.items()}
        _, logits = self._forward_backward(*self.put(inputs, labels))
        for name, each in self._statistics.items():
            each.set_data(before[name])
        # Gluon's backward sums over the batch; its trainer divides by the batch size.
        named = self._parameters.items()
        return logits.asnumpy(), {n: each.grad().asnumpy() / len(labels) for n, each in named}

    def weights(self) -> Weights:
        return {name: each.data().asnumpy() for name, each in self._parameters.items()}

    def statistics(self) -> Weights:
        return {name: each.data().asnumpy() for name, each in self._statistics.items()}

    def _input(self, values: Array) -> Any:
        # from_numpy takes the batch over as it is; nd.array would copy it.
        return mx.nd.from_numpy(values).as_in_context(self._context)

    def _forward_backward(self, inputs: Any, targets: Any) -> tuple[Any, Any]:
        with autograd.record():
            logits = self._model(inputs)
            losses = self._loss(logits, targets)
        losses.backward()
        return losses, logits


class Branches(gluon.HybridBlock):
    """Several series on one input, their results added or put one after the other."""

    def __init__(self, kind: str, series: list[gluon.HybridBlock]) -> None:
        super().__init__(prefix="")
        self._concat = kind == "concat"
        for each in series:
            self.register_child(each)

    def hybrid_forward(self, F: Any, values: Any) -> Any:  # noqa: N803, the name is Gluon's
        results = [series(values) for series in self._children.values()]
        return F.concat(*results, dim=1) if self._concat else F.add_n(*results)


class SelfAttention(gluon.HybridBlock):
    def __init__(self, layer: dict[str, Any], prefix: str) -> None:
        super().__init__(prefix=prefix)
        features, self._heads = layer["features"], layer["heads"]
        self._length = layer["input_shape"][0]
        self._scale = 1 / math.sqrt(features // self._heads)
        sizes = {"flatten": False, "in_units": features}
        with self.name_scope():
            self.input = nn.Dense(3 * features, **sizes, prefix="in_")
            self.output = nn.Dense(features, **sizes, prefix="out_")

    def hybrid_forward(self, F: Any, sequence: Any) -> Any:  # noqa: N803
        # (batch, length, 3 x features) -> three of (batch x heads, length, features / heads)
        parts = self.input(sequence).reshape((0, 0, 3, self._heads, -1))
        parts = parts.transpose((2, 0, 3, 1, 4)).reshape((3, -1, self._length, 0), reverse=True)
        queries, keys, values = F.split(parts, 3, axis=0, squeeze_axis=True)
        scores = F.batch_dot(queries * self._scale, keys, transpose_b=True)
        mixed = F.batch_dot(F.softmax(scores), values)
        mixed = mixed.reshape((-4, -1, self._heads, 0, 0)).transpose((0, 2, 1, 3))
        return self.output(mixed.reshape((0, 0, -3)))


class ClassToken(gluon.HybridBlock):
    def __init__(self, layer: dict[str, Any], prefix: str) -> None:
        super().__init__(prefix=prefix)
        self.weight = self.params.get("weight", shape=(layer["features"],))

    def hybrid_forward(self, F: Any, sequence: Any, weight: Any) -> Any:  # noqa: N803
        first = F.slice_axis(sequence, axis=1, begin=0, end=1)
        return F.concat(F.broadcast_like(weight.reshape((1, 1, -1)), first), sequence, dim=1)


class PositionEmbedding(gluon.HybridBlock):
    def __init__(self, layer: dict[str, Any], prefix: str) -> None:
        super().__init__(prefix=prefix)
        self.weight = self.params.get("weight", shape=(layer["length"], layer["features"]))

    def hybrid_forward(self, F: Any, sequence: Any, weight: Any) -> Any:  # noqa: N803
        return F.broadcast_add(sequence, weight.expand_dims(0))


class Lstm(gluon.HybridBlock):
    def __init__(self, layer: dict[str, Any], prefix: str) -> None:
        super().__init__(prefix=prefix)
        self.cell = gluon.rnn.LSTM(
            layer["hidden"], layout="NTC", input_size=layer["in_features"], prefix=prefix
        )
        # The second bias, which the recurrent product has here, stays zero: one is enough.
        self.cell.l0_h2h_bias.grad_req = "null"

    def hybrid_forward(self, F: Any, sequence: Any) -> Any:  # noqa: N803
        return F.slice_axis(self.cell(sequence), axis=1, begin=-1, end=None).flatten()


def _series(layers: list[dict[str, Any]]) -> gluon.HybridBlock:
    series = nn.HybridSequential(prefix="")
    for layer in layers:
        series.add(_lower(layer))
    return series


def _lower(layer: dict[str, Any]) -> gluon.HybridBlock:
    kind, prefix = layer["kind"], f"{layer['name']}_"
    if "branches" in layer:
        return Branches(kind, [_series(branch) for branch in layer["branches"]])
    if kind == "conv2d":
        return nn.Conv2D(
            layer["out_channels"],
            tuple(layer["kernel"]),
            strides=tuple(layer["stride"]),
            padding=tuple(layer["padding"]),
            use_bias=layer["bias"],
            in_channels=layer["in_channels"],
            prefix=prefix,
        )
    if kind in ("max_pool2d", "avg_pool2d"):
        make = nn.MaxPool2D if kind == "max_pool2d" else nn.AvgPool2D
        sizes = {"strides": tuple(layer["stride"]), "padding": tuple(layer["padding"])}
        ceil = layer.get("ceil", False)
        return make(tuple(layer["kernel"]), **sizes, ceil_mode=ceil, prefix=prefix)
    if kind == "dense":
        sizes = {"in_units": layer["in_features"], "use_bias": layer["bias"]}
        return nn.Dense(layer["out_features"], **sizes, flatten=False, prefix=prefix)
    if kind == "batch_norm":
        numbers = {"momentum": 1 - layer["momentum"], "epsilon": layer["epsilon"]}
        return nn.BatchNorm(**numbers, in_channels=layer["channels"], prefix=prefix)
    if kind == "layer_norm":
        numbers = {"epsilon": layer["epsilon"], "in_channels": layer["features"]}
        return nn.LayerNorm(**numbers, prefix=prefix)
    if kind == "dropout":
        return nn.Dropout(layer["rate"], prefix=prefix)
    if kind in ("relu", "tanh"):
        return nn.Activation(kind, prefix=prefix)
    if kind in SIMPLE:
        return SIMPLE[kind]()
    if kind in SEQUENCES:
        return SEQUENCES[kind](layer, prefix)
    raise NotImplementedError(f"MXNet module has no layer {kind!r}")


def _global_pool() -> gluon.HybridBlock:
    pool = nn.HybridSequential(prefix="")
    pool.add(nn.GlobalAvgPool2D(), nn.Flatten())
    return pool


SIMPLE = {
    "gelu": nn.GELU,
    "flatten": nn.Flatten,
    "global_avg_pool2d": _global_pool,
    "rows": lambda: nn.HybridLambda(lambda ops, images: ops.squeeze(images, axis=1)),
    "tokens": lambda: nn.HybridLambda(lambda ops, x: x.reshape((0, 0, -1)).transpose((0, 2, 1))),
    "first_token": lambda: nn.HybridLambda(
        lambda ops, x: ops.slice_axis(x, axis=1, begin=0, end=1).flatten()
    ),
}
SEQUENCES = {
    "class_token": ClassToken,
    "position_embedding": PositionEmbedding,
    "self_attention": SelfAttention,
    "lstm": Lstm,
}
# What Gluon calls a parameter, if not by its canonical role.
NAMES = {
    "batch_norm": {
        "weight": "gamma",
        "bias": "beta",
        "mean": "running_mean",
        "variance": "running_var",
    },
    "layer_norm": {"weight": "gamma", "bias": "beta"},
    "lstm": {
        "input_weight": "l0_i2h_weight",
        "hidden_weight": "l0_h2h_weight",
        "bias": "l0_i2h_bias",
    },
}


def _name(name: str, kinds: dict[str, str]) -> str:
    """Gluon's name of a canonical one: conv1.weight -> conv1_weight."""
    layer, role = name.split(".")
    return f"{layer}_{NAMES.get(kinds[layer], {}).get(role, role)}"


def _optimizer(trial: Trial) -> mx.optimizer.Optimizer:
    how = trial.optimizer
    name, rate = how["name"], how["learning_rate"]
    if name == "sgd":
        return mx.optimizer.SGD(learning_rate=rate)
    if name == "momentum":
        return mx.optimizer.SGD(learning_rate=rate, momentum=how["momentum"])
    if name == "adam":
        # As the kernel rounds them, lest the bias correction, done in Python, be of other numbers.
        betas = {key: float(np.float32(how[key])) for key in ("beta1", "beta2")}
        return Adam(learning_rate=rate, **betas, epsilon=how["epsilon"])
    if name == "rmsprop":
        return mx.optimizer.RMSProp(rate, gamma1=how["decay"], epsilon=how["epsilon"])
    raise NotImplementedError(f"MXNet module has no optimizer {name!r}")


class Adam(mx.optimizer.Adam):
    """Kingma and Ba's first algorithm.

    MXNet's own adds epsilon before it corrects the second moment's bias; so it is given an
    epsilon that this correction makes right.
    """

    def __init__(self, *, epsilon: float, **numbers: float) -> None:
        super().__init__(epsilon=epsilon, **numbers)
        self._epsilon = epsilon

    def update(self, index: int, weight: Any, grad: Any, state: Any) -> None:
        step = self._index_update_count.get(index, self.begin_num_update) + 1
        self.epsilon = self._epsilon * math.sqrt(1 - self.beta2**step)
        super().update(index, weight, grad, state)
