"""A trial's layers as a PyTensor graph.

The compiler knows all shapes, also the size of the batch, so that the program computes none. The
batch is the last axis of images (channels, height, width, N) and of features (features, N), and
the first axis of sequences (N, length, features).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt

from ...layouts import kept, side_paddings
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
        self._seed = trial.seed
        layers, shape = trial.layers, (trial.batch_size, *trial.architecture["input_shape"])
        text = layers[0]["kind"] == "embedding"
        self.inputs = pt.tensor("inputs", shape=shape, dtype="int32" if text else trial.dtype)
        axes = range(self.inputs.ndim)
        results = self._series(layers, self.inputs if text else self.inputs.transpose(*axes[1:], 0))
        self.logits = results.T if results.ndim == 2 else results

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
        if kind in LAYERS:
            prefix = f"{layer['name']}."
            own = {
                n.removeprefix(prefix): t for n, t in self._tensors.items() if n.startswith(prefix)
            }
            return LAYERS[kind](layer, values, own)
        raise NotImplementedError(f"PyTensor module has no layer {kind!r}")

    def _batch_norm(self, layer: dict[str, Any], values: Any) -> Any:
        mean, variance = (self._tensors[f"{layer['name']}.{role}"] for role in ("mean", "variance"))
        weight, bias = (self._tensors[f"{layer['name']}.{role}"] for role in ("weight", "bias"))
        if self._training:
            kept, new = 1 - layer["momentum"], layer["momentum"]
            running = mean, variance
            axes = tuple(range(1, values.ndim))
            mean = values.mean(axis=axes)
            variance = ((values - _along(mean, values)) ** 2).mean(axis=axes)
            for old, batch in zip(running, (mean, variance)):
                self.updates[old] = kept * old + new * batch
        factor = weight / pt.sqrt(variance + layer["epsilon"])
        return values * _along(factor, values) + _along(bias - mean * factor, values)

    def _dropout(self, layer: dict[str, Any], values: Any) -> Any:
        # Each layer has a generator of its own.
        seed = [self._seed, len(self.updates)]
        generator = pytensor.shared(np.random.default_rng(seed))
        following, drawn = pt.random.uniform(
            size=_of_samples(values) if layer["whole"] else values.type.shape,
            rng=generator,
            return_next_rng=True,
        )
        self.updates[generator] = following
        return pt.switch(drawn >= layer["rate"], values / (1 - layer["rate"]), 0)


def _along(vector: Any, values: Any) -> Any:
    """The vector along the first axis of `values`, ready to be added or multiplied."""
    return vector.dimshuffle(0, *["x"] * (values.ndim - 1))


def _zero_padding2d(layer: dict[str, Any], images: Any, own: dict[str, Any]) -> Any:
    (top, bottom), (left, right) = side_paddings(layer)
    channels, height, width, batch = images.type.shape
    zeros = pt.zeros((channels, top + height + bottom, left + width + right, batch), images.dtype)
    return pt.set_subtensor(zeros[:, top : top + height, left : left + width], images)


def _local_response_norm(layer: dict[str, Any], images: Any, own: dict[str, Any]) -> Any:
    channels, *others = images.type.shape
    half = layer["size"] // 2
    zeros = pt.zeros((half, *others), images.dtype)
    squares = pt.join(0, zeros, images**2, zeros) if half else images**2
    total = sum(squares[first : first + channels] for first in range(layer["size"]))
    return images * (layer["k"] + layer["alpha"] / layer["size"] * total) ** -layer["beta"]


def _of_samples(values: Any) -> tuple[int, ...]:
    """A shape with one value for each sample: sequences have the batch first, all others last."""
    shape = values.type.shape
    axis = 0 if len(shape) == 3 else len(shape) - 1
    return tuple(size if number == axis else 1 for number, size in enumerate(shape))


def _convolution(layer: dict[str, Any], images: Any, own: dict[str, Any]) -> Any:
    return _with_bias(windows.convolve(images, own["weight"], layer), own)


def _dense(layer: dict[str, Any], values: Any, own: dict[str, Any]) -> Any:
    if values.ndim == 3:
        return sequences.dense(values, own["weight"], own.get("bias"))
    return _with_bias(pt.dot(own["weight"], values), own)


def _with_bias(values: Any, own: dict[str, Any]) -> Any:
    return values + _along(own["bias"], values) if "bias" in own else values


def _layer_norm(layer: dict[str, Any], values: Any, own: dict[str, Any]) -> Any:
    axis = -1 if values.ndim == 3 else 0
    centered = values - values.mean(axis=axis, keepdims=True)
    variance = (centered**2).mean(axis=axis, keepdims=True)
    normal = centered / pt.sqrt(variance + layer["epsilon"])
    if values.ndim == 3:
        return normal * own["weight"] + own["bias"]
    return normal * _along(own["weight"], values) + _along(own["bias"], values)


def _channel_shuffle(layer: dict[str, Any], images: Any, own: dict[str, Any]) -> Any:
    channels, *others = images.type.shape
    groups = layer["groups"]
    parts = images.reshape((groups, channels // groups, *others))
    return parts.transpose(1, 0, 2, 3, 4).reshape(images.type.shape)


def _gelu(layer: dict[str, Any], values: Any, own: dict[str, Any]) -> Any:
    if layer["approximate"]:
        inner = math.sqrt(2 / math.pi) * (values + 0.044715 * values**3)
        return values * (0.5 + 0.5 * pt.tanh(inner))
    return values * (0.5 + 0.5 * pt.erf(values * 0.5**0.5))


def _tokens(images: Any) -> Any:
    channels, height, width, batch = images.type.shape
    return images.reshape((channels, height * width, batch)).transpose(2, 1, 0)


JOINS = {
    "add": lambda results: sum(results[1:], results[0]),
    "multiply": lambda results: math.prod(results[1:], start=results[0]),
    "concat": lambda results: pt.join(0, *results),
}
SIMPLE = {
    # The gradient of clip at 0 is 1.
    "relu6": lambda values: pt.switch(values > 0, pt.switch(values < 6, values, 6), 0),
    "sigmoid": pt.sigmoid,
    "silu": lambda values: values * pt.sigmoid(values),
    "hard_swish": lambda values: values * pt.clip(values + 3, 0, 6) / 6,
    "relu": lambda values: pt.switch(values > 0, values, 0),
    "tanh": pt.tanh,
    "flatten": lambda images: images.reshape(
        (math.prod(images.type.shape[:3]), images.type.shape[3])
    ),
    "global_avg_pool2d": lambda images: images.mean(axis=(1, 2)),
    "rows": lambda images: images[0].transpose(2, 0, 1),
    "tokens": _tokens,
    "first_token": lambda sequence: sequence[:, 0].T,
}
LAYERS = {
    "hard_sigmoid": lambda layer, x, own: pt.clip(6 * layer["slope"] * x + 3, 0, 6) / 6,
    "leaky_relu": lambda layer, x, own: pt.switch(x > 0, x, layer["slope"] * x),
    "conv2d": _convolution,
    "max_pool2d": lambda layer, images, own: windows.max_pool(images, layer),
    "avg_pool2d": lambda layer, images, own: windows.avg_pool(images, layer),
    "gelu": _gelu,
    "local_response_norm": _local_response_norm,
    "channel_slice": lambda layer, images, own: images[layer["start"] : layer["stop"]],
    "zero_padding2d": _zero_padding2d,
    "cropping2d": lambda layer, images, own: images[(slice(None), *kept(layer))],
    "channel_shuffle": _channel_shuffle,
    "scale": lambda layer, images, own: images * _along(own["weight"], images),
    "dense": _dense,
    "layer_norm": _layer_norm,
    "embedding": lambda layer, tokens, own: own["weight"][tokens],
    "class_token": sequences.class_token,
    "position_embedding": lambda layer, sequence, own: sequence + own["weight"],
    "self_attention": sequences.self_attention,
    "lstm": sequences.lstm,
}
