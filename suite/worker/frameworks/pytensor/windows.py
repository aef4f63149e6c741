"""Convolution and pooling by selected rows; PyTensor has none for several channels.

A batch of images is (channels, height, width, N) here. As a matrix it has a row of N values for
each position, and a window of any size is a selection of whole rows. One product then computes a
whole convolution, with the weight as it is, and its result is an image of the same form.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt

from ...protocol import Array


def convolve(images: Any, weight: Any, layer: dict[str, Any]) -> Any:
    """The cross-correlation of images (C, H, W, N) with `weight` (K, C, h, w): (K, H', W', N)."""
    channels, height, width = layer["input_shape"]
    pixels = images.reshape((channels * height * width, images.type.shape[-1]))
    rows = _rows(layer)  # (h w, C, H', W')
    if len(rows) > 1 or rows.size != channels * height * width:
        rows = np.moveaxis(rows, 0, 1)  # (C, h w, H', W'), in the order of the weight
        pixels = _with_zeros(pixels, layer)[rows.reshape(-1)]
    values = channels * layer["kernel"][0] * layer["kernel"][1]  # in a window
    taken = pixels.reshape((values, rows[0, 0].size * images.type.shape[-1]))
    product = pt.dot(weight.reshape((layer["out_channels"], values)), taken)
    return product.reshape((layer["out_channels"], *rows.shape[2:], images.type.shape[-1]))


def max_pool(images: Any, layer: dict[str, Any]) -> Any:
    """The maximum of each window of images (C, H, W, N).

    Of equal values only the first has the gradient, by `pt.maximum`; by `pt.max` each would.
    """
    channels, height, width = layer["input_shape"]
    pixels = images.reshape((channels * height * width, images.type.shape[-1]))
    # A position outside the image is replaced by the nearest inside, which is in the same window.
    first, *others = _rows(layer, outside="nearest")
    largest = pixels[first.reshape(-1)]
    for rows in others:
        largest = pt.maximum(largest, pixels[rows.reshape(-1)])
    return largest.reshape((*first.shape, images.type.shape[-1]))


def avg_pool(images: Any, layer: dict[str, Any]) -> Any:
    """The mean of each window of images (C, H, W, N), in which padding counts as zeros."""
    channels, height, width = layer["input_shape"]
    rows = _rows(layer)
    pixels = images.reshape((channels * height * width, images.type.shape[-1]))
    taken = _with_zeros(pixels, layer)[rows.reshape(-1)]
    return taken.reshape((*rows.shape, images.type.shape[-1])).mean(axis=0)


def _with_zeros(pixels: Any, layer: dict[str, Any]) -> Any:
    """The rows, and after them one of zeros where the layer has padding."""
    if not any(layer["padding"]):
        return pixels
    return pt.join(0, pixels, pt.zeros((1, pixels.type.shape[1]), pixels.dtype))


def _rows(layer: dict[str, Any], *, outside: str = "zeros") -> Array:
    """The row of each position in each window, as (h w, C, H', W').

    A position outside the image has the row after the last one, or that of the nearest position.
    """
    channels, height, width = layer["input_shape"]
    vertical, above = _positions(layer, 0, height)  # (h, H')
    horizontal, left = _positions(layer, 1, width)  # (w, W')
    plane = vertical[:, None, :, None] * width + horizontal[None, :, None, :]  # (h, w, H', W')
    rows = np.arange(channels)[:, None, None] * height * width + plane[:, :, None]
    if outside == "zeros":
        hidden = above[:, None, :, None] | left[None, :, None, :]
        rows = np.where(hidden[:, :, None], channels * height * width, rows)
    return rows.reshape(-1, *rows.shape[2:])


def _positions(layer: dict[str, Any], axis: int, size: int) -> tuple[Array, Array]:
    """The positions along an axis, moved inside the image, and which were outside: (kernel, H')."""
    kernel, stride, padding = (layer[key][axis] for key in ("kernel", "stride", "padding"))
    steps = (size + 2 * padding - kernel) / stride
    count = int(np.ceil(steps) if layer.get("ceil") else np.floor(steps)) + 1
    positions = np.arange(kernel)[:, None] + np.arange(count) * stride - padding
    return positions.clip(0, size - 1), (positions < 0) | (positions >= size)
