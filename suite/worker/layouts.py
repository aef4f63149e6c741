"""Canonical weights (channels first) to and from the layout of channels-last frameworks.

Convolutions: (out, in, height, width) <-> (height, width, in, out). Dense: (out, in) <-> (in, out).
The dense layer after a flatten sees its inputs in another order, since channels-last flattens
(height, width, channel): its rows are permuted once, here, so that no step pays for it.
"""

from __future__ import annotations

from .protocol import Array, Trial, Weights


def to_channels_last(trial: Trial, weights: Weights) -> Weights:
    """Canonical weights as a channels-last framework holds them."""
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


def _kernels(trial: Trial) -> list[tuple[str, tuple[int, int, int] | None]]:
    """Each kernel's name, with the (channels, height, width) that were flattened before it."""
    kernels: list[tuple[str, tuple[int, int, int] | None]] = []
    flattened = None
    for layer in trial.layers:
        if layer["kind"] == "flatten":
            flattened = tuple(layer["input_shape"])
        elif layer["kind"] in ("conv2d", "dense"):
            kernels.append((f"{layer['name']}.weight", flattened))
            flattened = None
    return kernels
