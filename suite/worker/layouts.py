"""Conversions for channels-last frameworks: weights to and from their layout, paddings as pairs.

Convolutions: (out, in, height, width) <-> (height, width, in, out), and transposed convolutions
(in, out, height, width) <-> (height, width, out, in). Dense layers and all other
matrix products: (out, in) <-> (in, out). The dense layer after a flatten gets its inputs in another
order, because channels-last flattens (height, width, channel). Its rows are permuted here once, so
the steps need no permutation.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .protocol import Array, Trial, Weights

# The roles of the parameters that are matrices of a product, by the kind of their layer.
MATRICES = {
    "dense": ("weight",),
    "lstm": ("input_weight", "hidden_weight"),
    "gru": ("input_weight", "hidden_weight"),
    "self_attention": ("in_weight", "out_weight"),
    "window_attention": ("in_weight", "out_weight"),
}


def to_channels_last(trial: Trial, weights: Weights) -> Weights:
    """Canonical weights in the layout of a channels-last framework."""
    converted = dict(weights)
    for name, shape in _kernels(trial):
        kernel = weights[name]
        if kernel.ndim == 4:
            converted[name] = kernel.transpose(2, 3, 1, 0)
        elif shape is not None:
            channels, height, width = shape
            split = kernel.reshape(-1, channels, height, width)
            converted[name] = split.transpose(2, 3, 1, 0).reshape(kernel.shape[::-1])
        else:
            converted[name] = kernel.T
    return converted


def to_canonical(trial: Trial, weights: Weights) -> Weights:
    """The inverse of `to_channels_last`."""
    converted = dict(weights)
    for name, shape in _kernels(trial):
        kernel: Array = weights[name]
        if kernel.ndim == 4:
            converted[name] = kernel.transpose(3, 2, 0, 1)
        elif shape is not None:
            channels, height, width = shape
            split = kernel.reshape(height, width, channels, -1)
            converted[name] = split.transpose(3, 2, 0, 1).reshape(kernel.shape[::-1])
        else:
            converted[name] = kernel.T
    return converted


def input_form(trial: Trial, layout: str) -> tuple[tuple[int, ...], str]:
    """The shape of a batch of inputs in `layout` (NCHW or NHWC), and its type."""
    shape = tuple(trial.architecture["input_shape"])
    if len(shape) == 3 and layout == "NHWC":
        shape = (*shape[1:], shape[0])
    of_tokens = trial.layers[0]["kind"] == "embedding"
    return (trial.batch_size, *shape), "int32" if of_tokens else trial.dtype


def output_shape(trial: Trial) -> tuple[int, ...]:
    """The shape of a batch of logits: (batch, classes), or (batch, positions, classes)."""
    last = trial.layers[-1]
    positions: tuple[int, ...] = ()
    if last["kind"] == "tokens":
        positions = (math.prod(last["input_shape"][1:]),)
    elif last["kind"] in ("dense", "tied_head"):
        positions = tuple(last["input_shape"][:-1])
    return (trial.batch_size, *positions, trial.architecture["classes"])


def _kernels(trial: Trial) -> list[tuple[str, tuple[int, int, int] | None]]:
    """The name of each kernel, with the (channels, height, width) flattened before it, if any."""
    kernels: list[tuple[str, tuple[int, int, int] | None]] = []
    flattened = None
    for layer in trial.leaves():
        name, kind = layer["name"], layer["kind"]
        if kind == "flatten":
            flattened = tuple(layer["input_shape"])
        elif kind in ("conv2d", "conv2d_transposed"):
            kernels.append((f"{name}.weight", None))
        else:
            kernels += [(f"{name}.{role}", flattened) for role in MATRICES.get(kind, ())]
            flattened = None if kind in MATRICES else flattened
    return kernels


def paddings(layer: dict[str, Any]) -> list[tuple[int, int]]:
    """The padding (top, bottom) and (left, right) of a window, in numbers.

    Where a pool keeps an incomplete last window, the end is padded until that window is complete.
    """
    pairs = []
    parts = (_extent(layer), layer["stride"], layer["padding"], layer["extra_padding"])
    for size, kernel, stride, pad, extra in zip(layer["input_shape"][1:], *parts):
        remainder = (size + 2 * pad + extra - kernel) % stride
        missing = stride - remainder if layer.get("ceil") and remainder else 0
        pairs.append((pad, pad + extra + missing))
    return pairs


def transposed_paddings(layer: dict[str, Any]) -> list[tuple[int, int]]:
    """The padding of a transposed convolution, as a convolution of its spread-out input."""
    parts = (layer["kernel"], layer["padding"], layer["extra"])
    return [(size - 1 - pad, size - 1 - pad + extra) for size, pad, extra in zip(*parts)]


def shares(layer: dict[str, Any]) -> Array | None:
    """The share of each window that is no padding, (height, width); None where all of it counts.

    The mean over a padded window is divided by it where padding does not count.
    """
    pairs = paddings(layer)
    if layer["count_padding"] or not any(map(any, pairs)):
        return None
    inside = []
    for axis, (before, after) in enumerate(pairs):
        size, kernel = layer["input_shape"][1 + axis], layer["kernel"][axis]
        starts = np.arange(0, size + before + after - kernel + 1, layer["stride"][axis]) - before
        inside.append(np.minimum(starts + kernel, size) - np.maximum(starts, 0))
    return np.asarray(np.outer(*inside) / math.prod(layer["kernel"]))


def _extent(layer: dict[str, Any]) -> list[int]:
    """The height and width that a window covers, with its dilation."""
    dilation = layer.get("dilation", (1, 1))
    return [step * (size - 1) + 1 for size, step in zip(layer["kernel"], dilation)]


def side_paddings(layer: dict[str, Any]) -> tuple[tuple[int, int], tuple[int, int]]:
    """The changes of an image's height and width, each at its start and at its end."""
    return (layer["top"], layer["bottom"]), (layer["left"], layer["right"])


def kept(layer: dict[str, Any]) -> tuple[slice, slice]:
    """The rows and columns of an image that a cropping keeps."""
    sizes = layer["input_shape"][1:]
    rows, columns = (
        slice(start, size - end) for size, (start, end) in zip(sizes, side_paddings(layer))
    )
    return rows, columns


def same_paddings(layer: dict[str, Any]) -> list[tuple[int, int]]:
    """The padding that SAME means in TensorFlow and Keras."""
    pairs = []
    for size, kernel, stride in zip(layer["input_shape"][1:], _extent(layer), layer["stride"]):
        total = max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)
        pairs.append((total // 2, total - total // 2))
    return pairs
