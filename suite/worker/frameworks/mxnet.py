"""MXNet: Gluon, hybridized with static memory and shapes, oneDNN underneath."""

from __future__ import annotations

from typing import Any

import mxnet as mx
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
        self._model = nn.HybridSequential(prefix="")
        for layer in trial.layers:
            self._model.add(_lower(layer))
        self._parameters = self._model.collect_params()
        self._model.cast(trial.precision)
        self._model.initialize(ctx=self._context)
        for name, values in weights.items():
            self._parameters[_name(name)].set_data(mx.nd.array(values, dtype=trial.precision))
        self._model.hybridize(static_alloc=True, static_shape=True)
        self._loss = gluon.loss.SoftmaxCrossEntropyLoss()
        self._loss.hybridize(static_alloc=True, static_shape=True)
        self._trainer = _trainer(trial, self._parameters)

    def train_step(self, images: Array, labels: Array) -> Any:
        losses = self._forward_backward(images, labels)
        self._trainer.step(len(labels))
        return losses

    def synchronize(self) -> None:
        mx.nd.waitall()

    def read(self, loss: Any) -> float:
        return float(loss.mean().asscalar())

    def logits(self, images: Array) -> Array:
        logits: Array = self._model(self._input(images)).asnumpy()
        return logits

    def gradients(self, images: Array, labels: Array) -> Weights:
        self._forward_backward(images, labels)
        names = [parameter["name"] for parameter in self._trial.parameters]
        # Gluon's backward sums over the batch; its trainer divides by the batch size.
        return {n: self._parameters[_name(n)].grad().asnumpy() / len(labels) for n in names}

    def weights(self) -> Weights:
        names = [parameter["name"] for parameter in self._trial.parameters]
        return {n: self._parameters[_name(n)].data().asnumpy() for n in names}

    def _input(self, values: Array) -> Any:
        # from_numpy takes the batch over as it is; nd.array would copy it.
        return mx.nd.from_numpy(values).as_in_context(self._context)

    def _forward_backward(self, images: Array, labels: Array) -> Any:
        inputs, targets = self._input(images), self._input(labels)
        with autograd.record():
            losses = self._loss(self._model(inputs), targets)
        losses.backward()
        return losses


def _name(name: str) -> str:
    """Gluon's name of a canonical one: conv1.weight -> conv1_weight."""
    return name.replace(".", "_")


def _lower(layer: dict[str, Any]) -> gluon.HybridBlock:
    kind, prefix = layer["kind"], f"{layer['name']}_"
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
    if kind == "max_pool2d":
        sizes = {"strides": tuple(layer["stride"]), "padding": tuple(layer["padding"])}
        return nn.MaxPool2D(tuple(layer["kernel"]), **sizes, prefix=prefix)
    if kind == "flatten":
        return nn.Flatten(prefix=prefix)
    if kind == "dense":
        sizes = {"in_units": layer["in_features"], "use_bias": layer["bias"]}
        return nn.Dense(layer["out_features"], **sizes, flatten=False, prefix=prefix)
    if kind == "relu":
        return nn.Activation("relu", prefix=prefix)
    raise NotImplementedError(f"MXNet module has no layer {kind!r}")


def _trainer(trial: Trial, parameters: gluon.ParameterDict) -> gluon.Trainer:
    optimizer = trial.optimizer
    if optimizer["name"] == "sgd":
        rate = {"learning_rate": optimizer["learning_rate"]}
        # One device needs no key-value store: without it the update runs where the gradients lie.
        return gluon.Trainer(parameters, "sgd", rate, kvstore=None)
    raise NotImplementedError(f"MXNet module has no optimizer {optimizer['name']!r}")
