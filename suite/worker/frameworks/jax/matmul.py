"""Convolution and max pooling as operations that XLA computes fast on a CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax import lax
from jax import numpy as jnp

Pairs = Sequence[tuple[int, int]]  # padding before and after the rows, and the columns


def convolve(images: Any, kernel: Any, strides: Any, padding: Pairs, **rest: Any) -> Any:
    """`lax.conv_general_dilated` of images (N, H, W, C) by a kernel (h, w, C, K), for `nnx.Conv`.

    A 1 x 1 convolution is one matrix product. In any other, the kernel's gradient is one matrix
    product for each row of the kernel; XLA computes the rest.
    """
    if not _is_plain(rest):
        return lax.conv_general_dilated(images, kernel, strides, padding, **rest)
    if kernel.shape[:2] == (1, 1) and not any(map(any, padding)):
        taken = images[:, :: strides[0], :: strides[1]]
        # With two axes only: with more, the gradients are no longer plain matrix products.
        return (_flat(taken) @ kernel[0, 0]).reshape(*taken.shape[:-1], -1)

    def plain(images: Any, kernel: Any) -> Any:
        return lax.conv_general_dilated(images, kernel, strides, padding, **rest)

    def forward(images: Any, kernel: Any) -> tuple[Any, tuple[Any, Any]]:
        return plain(images, kernel), (images, kernel)

    def backward(kept: tuple[Any, Any], gradient: Any) -> tuple[Any, Any]:
        images, kernel = kept
        _, pull_back = jax.vjp(lambda images: plain(images, kernel), images)
        (by_images,) = pull_back(gradient)
        return by_images, _kernel_gradient(kernel.shape, images, gradient, strides, padding)

    convolution = jax.custom_vjp(plain)
    convolution.defvjp(forward, backward)
    return convolution(images, kernel)


def convolve_by_rows(images: Any, kernel: Any, strides: Any, padding: Pairs, **rest: Any) -> Any:
    """As `convolve`, with one matrix product for each row of the kernel, and its gradients too.

    XLA on a CPU has a library for convolutions in float32 only: in float64 it computes them in
    plain loops, many times slower. Of the windows nothing is kept for the gradients.
    """
    if not _is_plain(rest):
        return lax.conv_general_dilated(images, kernel, strides, padding, **rest)

    def by_rows(images: Any, kernel: Any) -> Any:
        rows = _size(kernel.shape, images, strides, padding, axis=0)
        windows = _windows(kernel.shape, images, strides, padding)
        taken = (_every(windows, 1, row, rows, strides[0]) for row in range(len(kernel)))
        flat = kernel.reshape(len(kernel), -1, kernel.shape[-1])
        result = sum(_flat(each) @ of_row for each, of_row in zip(taken, flat))
        return result.reshape(len(images), rows, windows.shape[2], -1)

    return jax.checkpoint(by_rows)(images, kernel)


def _is_plain(options: dict[str, Any]) -> bool:
    """Whether a convolution has one group and no dilation, as it has without these options."""
    groups, dilation = options.get("feature_group_count", 1), options.get("rhs_dilation")
    return groups == 1 and set(dilation or [1]) == {1}


def max_pool(images: Any, window_shape: Any, strides: Any, padding: Pairs) -> Any:
    """`nnx.max_pool` by comparisons; of equal values the first gets the gradient, as in Flax."""
    padded = jnp.pad(images, ((0, 0), *padding, (0, 0)), constant_values=-jnp.inf)
    rows = _size(window_shape, images, strides, padding, axis=0)
    columns = _size(window_shape, images, strides, padding, axis=1)
    largest = None
    for row in range(window_shape[0]):
        for column in range(window_shape[1]):
            values = _every(padded, 1, row, rows, strides[0])
            values = _every(values, 2, column, columns, strides[1])
            largest = values if largest is None else jnp.where(largest >= values, largest, values)
    return largest


def _kernel_gradient(shape: Any, images: Any, gradient: Any, strides: Any, padding: Pairs) -> Any:
    """The gradient with respect to the kernel, whose shape is `shape`."""
    rows, windows = gradient.shape[1], _windows(shape, images, strides, padding)
    by_row = (_flat(_every(windows, 1, row, rows, strides[0])) for row in range(shape[0]))
    return jnp.stack([each.T @ _flat(gradient) for each in by_row]).reshape(shape)


def _windows(shape: Any, images: Any, strides: Any, padding: Pairs) -> Any:
    """For each position, all values under one row of a kernel of `shape`: (N, H, columns, w C)."""
    columns = _size(shape, images, strides, padding, axis=1)
    padded = jnp.pad(images, ((0, 0), *padding, (0, 0)))
    shifted = [_every(padded, 2, column, columns, strides[1]) for column in range(shape[1])]
    return jnp.concatenate(shifted, -1)


def _size(shape: Any, images: Any, strides: Any, padding: Pairs, *, axis: int) -> int:
    """The positions of a window of `shape` along the rows (axis 0) or the columns (axis 1)."""
    padded = images.shape[1 + axis] + sum(padding[axis])
    return int((padded - shape[axis]) // strides[axis] + 1)


def _every(values: Any, axis: int, start: int, count: int, step: int) -> Any:
    """`count` values along `axis`, from `start` on, every `step`-th."""
    return lax.slice_in_dim(values, start, start + step * (count - 1) + 1, step, axis)


def _flat(values: Any) -> Any:
    """All axes but the last as one."""
    return values.reshape(-1, values.shape[-1])
