"""A trial's layers as a Theano graph: images are (N, channels, height, width)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import theano.tensor as tt
from theano.sandbox.rng_mrg import MRG_RandomStreams

from ...layouts import kept
from ...protocol import Trial
from . import sequences, windows


class Graph:
    """`logits` (N, ..., classes), as a function of `inputs` in the form of a trial's batch.

    `tensors` has the parameters and the running statistics by name. With `training`, `updates` has
    what a step changes beside the parameters: the statistics and the generators of dropout.
    """

    def __init__(self, trial: Trial, tensors: Mapping[str, Any], *, training: bool) -> None:
        self.updates: dict[Any, Any] = {}
        self._tensors = tensors
        self._training = training
        self._batch_size = trial.rank_batch_size
        self._streams = MRG_RandomStreams(trial.seed)
        layers = trial.layers
        axes = 1 + len(trial.architecture["input_shape"])
        dtype = "int32" if layers[0]["kind"] == "embedding" else trial.dtype
        # An axis of one channel is not repeated: Theano must know of no axis that it has length 1.
        self.inputs = tt.TensorType(dtype, [False] * axes)("inputs")
        self.logits = self._series(layers, self.inputs)
        if training:
            self.updates |= {old: new for old, new, *_ in self._streams.state_updates}

    def _series(self, layers: list[dict[str, Any]], values: Any) -> Any:
        for layer in layers:
            values = self._lower(layer, values)
        return values

    def _lower(self, layer: dict[str, Any], values: Any) -> Any:
        kind = layer["kind"]
        if kind in SIMPLE:
            return SIMPLE[kind](values)
        if kind in JOINS:
            return JOINS[kind]([self._series(branch, values) for branch in layer["branches"]])
        if kind == "batch_norm":
            return self._batch_norm(layer, values)
        if kind == "dropout":
            return self._dropout(layer, values) if self._training else values
        if kind == "tied_head":
            return sequences.dense(values, self._tensors[f"{layer['embedding']}.weight"])
        if kind in WINDOWS:
            return WINDOWS[kind](layer, values, self._own(layer), self._batch_size)
        if kind in LAYERS:
            return LAYERS[kind](layer, values, self._own(layer))
        raise NotImplementedError(f"Theano module has no layer {kind!r}")

    def _own(self, layer: dict[str, Any]) -> dict[str, Any]:
        """The layer's tensors by their role."""
        prefix = f"{layer['name']}."
        return {n.removeprefix(prefix): t for n, t in self._tensors.items() if n.startswith(prefix)}

    def _batch_norm(self, layer: dict[str, Any], values: Any) -> Any:
        own, images = self._own(layer), values.ndim == 4
        along = windows.along if images else (lambda vector: vector)
        axes = (0, 2, 3) if images else (0,)
        mean, variance = own["mean"], own["variance"]
        if self._training:
            kept, new = 1 - layer["momentum"], layer["momentum"]
            running = mean, variance
            mean = values.mean(axis=axes)
            variance = ((values - along(mean)) ** 2).mean(axis=axes)
            for old, batch in zip(running, (mean, variance)):
                self.updates[old] = kept * old + new * batch
        factor = own["weight"] / tt.sqrt(variance + layer["epsilon"])
        return values * along(factor) + along(own["bias"] - mean * factor)

    def _dropout(self, layer: dict[str, Any], values: Any) -> Any:
        kept = 1 - layer["rate"]
        size = (self._batch_size, *[1] * (values.ndim - 1)) if layer["whole"] else values.shape
        drawn = self._streams.binomial(size=size, p=kept, dtype=values.dtype, ndim=values.ndim)
        if layer["whole"]:
            drawn = tt.addbroadcast(drawn, *range(1, values.ndim))
        return values * drawn / kept


def _dense(layer: dict[str, Any], values: Any, own: dict[str, Any]) -> Any:
    if values.ndim == 3:
        return sequences.dense(values, own["weight"], own.get("bias"))
    product = tt.dot(values, own["weight"].T)
    return product + own["bias"] if "bias" in own else product


def _layer_norm(layer: dict[str, Any], values: Any, own: dict[str, Any]) -> Any:
    axis, along = (1, windows.along) if layer["images"] else (-1, lambda vector: vector)
    centered = values - values.mean(axis=axis, keepdims=True)
    variance = (centered**2).mean(axis=axis, keepdims=True)
    normal = centered / tt.sqrt(variance + layer["epsilon"])
    return normal * along(own["weight"]) + along(own["bias"])


def _channel_shuffle(layer: dict[str, Any], images: Any, own: dict[str, Any]) -> Any:
    channels, height, width = layer["input_shape"]
    groups = layer["groups"]
    parts = images.reshape((-1, groups, channels // groups, height, width))
    return parts.dimshuffle(0, 2, 1, 3, 4).reshape((-1, channels, height, width))


def _gelu(layer: dict[str, Any], values: Any, own: dict[str, Any]) -> Any:
    if layer["approximate"]:
        inner = math.sqrt(2 / math.pi) * (values + 0.044715 * values**3)
        return values * (0.5 + 0.5 * tt.tanh(inner))
    return values * (0.5 + 0.5 * tt.erf(values * 0.5**0.5))


JOINS = {
    "add": lambda results: sum(results[1:], results[0]),
    "multiply": lambda results: math.prod(results[1:], start=results[0]),
    "concat": lambda results: tt.concatenate(results, axis=1),
}
SIMPLE = {
    # The gradient of clip at 0 is 1.
    "relu6": lambda values: tt.switch(values > 0, tt.switch(values < 6, values, 6), 0),
    "sigmoid": tt.nnet.sigmoid,
    "silu": lambda values: values * tt.nnet.sigmoid(values),
    "hard_swish": lambda values: values * tt.clip(values + 3, 0, 6) / 6,
    # The gradient of tt.nnet.relu at 0 is one half.
    "relu": lambda values: tt.switch(values > 0, values, 0),
    "tanh": tt.tanh,
    "flatten": lambda images: images.flatten(2),
    "global_avg_pool2d": lambda images: images.mean(axis=(2, 3)),
    "rows": lambda images: images[:, 0],
    "tokens": lambda images: images.flatten(3).dimshuffle(0, 2, 1),
    "first_token": lambda sequence: sequence[:, 0],
}
WINDOWS = {
    "zero_padding2d": windows.zero_padding,
    "conv2d": windows.convolve,
    "max_pool2d": windows.max_pool,
    "avg_pool2d": windows.avg_pool,
    "local_response_norm": windows.local_response_norm,
}
LAYERS = {
    "hard_sigmoid": lambda layer, x, own: tt.clip(6 * layer["slope"] * x + 3, 0, 6) / 6,
    "leaky_relu": lambda layer, x, own: tt.switch(x > 0, x, layer["slope"] * x),
    "gelu": _gelu,
    "channel_slice": lambda layer, images, own: images[:, layer["start"] : layer["stop"]],
    "cropping2d": lambda layer, images, own: images[(slice(None), slice(None), *kept(layer))],
    "channel_shuffle": _channel_shuffle,
    "scale": lambda layer, images, own: images * windows.along(own["weight"]),
    "dense": _dense,
    "layer_norm": _layer_norm,
    "embedding": lambda layer, tokens, own: own["weight"][tokens],
    "class_token": sequences.class_token,
    "position_embedding": lambda layer, sequence, own: sequence + own["weight"],
    "self_attention": sequences.self_attention,
}
