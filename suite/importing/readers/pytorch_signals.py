"""Inputs with two axes: signals (channels, length), and sequences (length, features).

A signal is an image of height 1, whose layers compute the same as those along one axis: frameworks
themselves run one-dimensional convolutions so. A sequence is the rows of an image of one channel.
"""

from __future__ import annotations

from typing import Any

from torch import fx, nn

from .common import Layer
from .pytorch_shapes import axes_order

# What takes a signal; all else takes a sequence.
MODULES = (
    *(nn.Conv1d, nn.ConvTranspose1d, nn.BatchNorm1d, nn.InstanceNorm1d, nn.GroupNorm),
    *(nn.MaxPool1d, nn.AvgPool1d, nn.AdaptiveAvgPool1d, nn.AdaptiveMaxPool1d),
    *(nn.ZeroPad1d, nn.ConstantPad1d),
)
OPERATIONS = ("max_pool1d", "avg_pool1d", "adaptive_avg_pool", "adaptive_max_pool", "pad")


def as_image(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a signal as that of an image."""
    channels, length = shape
    return (channels, 1, length)


def takes_signal(module: Any, operation: str | None) -> bool:
    """Whether an operation with this module, if any, takes a signal."""
    return isinstance(module, MODULES) or operation in OPERATIONS


def turned(name: str, node: fx.Node) -> Layer | None:
    """A change of the axes (batch, channels, length) that makes a sequence; None: it is none."""
    if name not in ("permute", "transpose") or axes_order(name, node, 3) != (0, 2, 1):
        return None
    return {"kind": "tokens"}


def cropped(node: fx.Node, length: int) -> Layer | None:
    """A part of the length of a signal, x[:, :, a:b]; None where the index is another one."""
    index: Any = node.args[1]
    whole = slice(None)
    if not isinstance(index, tuple) or len(index) != 3 or index[:2] != (whole, whole):
        return None
    part = index[2]
    if not isinstance(part, slice) or part.step not in (None, 1):
        return None
    if any(isinstance(each, fx.Node) for each in (part.start, part.stop)):
        return None
    start, stop, _ = part.indices(length)
    return {"kind": "cropping2d", "top": 0, "bottom": 0, "left": start, "right": length - stop}
