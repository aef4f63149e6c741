"""Convolution and pooling of images (N, channels, height, width)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import theano.tensor as tt
from theano.tensor.signal.pool import pool_2d

from ...layouts import side_paddings


def along(vector: Any) -> Any:
    """A vector along the channels of images."""
    return vector.dimshuffle("x", 0, "x", "x")


def convolve(layer: dict[str, Any], images: Any, own: dict[str, Any], batch_size: int) -> Any:
    """The cross-correlation; Theano's own default flips the kernel."""
    groups = layer["groups"]
    result = tt.nnet.conv2d(
        images,
        own["weight"],
        input_shape=(batch_size, *layer["input_shape"]),
        filter_shape=(layer["out_channels"], layer["in_channels"] // groups, *layer["kernel"]),
        border_mode=tuple(layer["padding"]),
        subsample=tuple(layer["stride"]),
        filter_dilation=tuple(layer["dilation"]),
        num_groups=groups,
        filter_flip=False,
    )
    result = _repeatable(layer, result)
    return result + along(own["bias"]) if "bias" in own else result


def max_pool(layer: dict[str, Any], images: Any, own: dict[str, Any], batch_size: int) -> Any:
    """The maximum of each window.

    Of equal values only the first has the gradient, by `tt.maximum`. By Theano's own pooling each
    of them has the whole gradient, which is another function where an image has a plain background.
    """
    height, width = (_size(layer, axis) for axis in (0, 1))
    images = _padded(layer, images, batch_size)
    (down, right), (kernel_height, kernel_width) = layer["stride"], layer["kernel"]
    largest = None
    for top in range(kernel_height):
        for left in range(kernel_width):
            rows = slice(top, top + (height - 1) * down + 1, down)
            columns = slice(left, left + (width - 1) * right + 1, right)
            values = images[:, :, rows, columns]
            largest = values if largest is None else tt.maximum(largest, values)
    return _repeatable(layer, largest)


def avg_pool(layer: dict[str, Any], images: Any, own: dict[str, Any], batch_size: int) -> Any:
    """The mean of each window, in which padding counts as zeros."""
    result = pool_2d(
        images,
        tuple(layer["kernel"]),
        ignore_border=True,
        stride=tuple(layer["stride"]),
        pad=tuple(layer["padding"]),
        mode="average_inc_pad",
    )
    return _repeatable(layer, result)


def zero_padding(layer: dict[str, Any], images: Any, own: dict[str, Any], batch_size: int) -> Any:
    """The images with zeros at their sides."""
    channels, height, width = layer["input_shape"]
    (top, bottom), (left, right) = side_paddings(layer)
    whole = top + height + bottom, left + width + right
    frame = tt.alloc(np.asarray(0, images.dtype), batch_size, channels, *whole)
    return tt.set_subtensor(frame[:, :, top : top + height, left : left + width], images)


def local_response_norm(
    layer: dict[str, Any], images: Any, own: dict[str, Any], batch_size: int
) -> Any:
    """Theano has none; this is a sum of channels that are moved."""
    channels, height, width = layer["input_shape"]
    half = layer["size"] // 2
    frame = tt.alloc(
        np.asarray(0, images.dtype), batch_size, channels + layer["size"] - 1, height, width
    )
    squares = tt.set_subtensor(frame[:, half : half + channels], images**2)
    total = sum(squares[:, first : first + channels] for first in range(layer["size"]))
    return images * (layer["k"] + layer["alpha"] / layer["size"] * total) ** -layer["beta"]


def _padded(layer: dict[str, Any], images: Any, batch_size: int) -> Any:
    """The images with the lowest number around them, so far as the windows reach."""
    channels, height, width = layer["input_shape"]
    top, left = layer["padding"]
    reach = [
        (_size(layer, axis) - 1) * layer["stride"][axis] + layer["kernel"][axis] for axis in (0, 1)
    ]
    whole = max(reach[0], top + height), max(reach[1], left + width)
    if whole == (height, width):
        return images
    lowest = np.finfo(images.dtype).min
    frame = tt.alloc(np.asarray(lowest, images.dtype), batch_size, channels, *whole)
    return tt.set_subtensor(frame[:, :, top : top + height, left : left + width], images)


def _size(layer: dict[str, Any], axis: int) -> int:
    """The height (axis 0) or width (axis 1) of the result."""
    size, pad = layer["input_shape"][1 + axis], layer["padding"][axis]
    extent = layer.get("dilation", (1, 1))[axis] * (layer["kernel"][axis] - 1) + 1
    steps = (size + 2 * pad - extent) / layer["stride"][axis]
    return (math.ceil(steps) if layer.get("ceil") else math.floor(steps)) + 1


def _repeatable(layer: dict[str, Any], images: Any) -> Any:
    """The images, of which Theano knows that a height or width is 1: `multiply` repeats it."""
    ones = [2 + axis for axis in (0, 1) if _size(layer, axis) == 1]
    return tt.addbroadcast(images, *ones) if ones else images
