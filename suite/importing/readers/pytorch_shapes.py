"""Changes of a tensor's axes: series of them that are one layer, or none.

ConvNeXt computes with channels last between two permutations. A vision transformer turns an image
to a sequence by a reshape and a transposition. ShuffleNet shuffles channels by a reshape, a
transposition and a reshape.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from torch import fx

from .common import Layer

# Kinds of layers that compute the same at each position of an image.
POINTWISE = (
    *("relu", "relu6", "leaky_relu", "tanh", "sigmoid", "silu", "hard_sigmoid", "hard_swish"),
    *("gelu", "dropout", "add", "multiply", "layer_norm", "scale"),
)


@dataclass(frozen=True)
class Form:
    """The form of a result between the operations that make one layer.

    last: an image (height, width, channels); pixels: (height x width, channels); squares: (height /
    2, 2, width / 2, 2, channels); merged: (height / 2, width / 2, 2, 2, channels); flat: (channels,
    height x width); grouped: (groups, channels of a group, height, width); shuffled: (channels of a
    group, groups, height, width).
    """

    name: str
    groups: int = 0


LAST = (Form("last"), Form("pixels"))  # whose last axis is that of the channels


def reshaped(
    name: str, node: fx.Node, form: Form | None, before: Any, after: Any
) -> tuple[Layer | None, Form | None] | None:
    """The layer and the form of a change of axes; None where the operation is no such change."""
    before, after = tuple(before), tuple(after)
    if name == "contiguous":
        return None, form
    if name in ("permute", "transpose"):
        return _turned(name, node, form, before, after)
    if name == "mean" and form == Form("last") and after == before[2:]:
        return {"kind": "global_avg_pool2d"}, None
    if name not in ("view", "reshape", "flatten"):
        return None
    if form is not None and (found := _of_channels_last(form, before, after)) is not None:
        return found
    if form is not None and form.name == "shuffled" and len(after) == 3:
        return {"kind": "channel_shuffle", "groups": form.groups}, None
    if form is None and len(before) == 3:
        channels, *size = before
        if after == (channels, math.prod(size)):
            return None, Form("flat")
        if len(after) == 4 and list(after[2:]) == size:
            return None, Form("grouped", after[0])
    return None


def _of_channels_last(
    form: Form, before: tuple[int, ...], after: tuple[int, ...]
) -> tuple[Layer | None, Form | None] | None:
    if form == Form("last"):
        height, width, channels = before
        if after == (height * width, channels):
            return None, Form("pixels")
        if after == (height // 2, 2, width // 2, 2, channels):
            return None, Form("squares")
    if form == Form("pixels") and len(after) == 3 and after[2] == before[1]:
        return None, Form("last")
    if form == Form("merged") and after == (*before[:2], 4 * before[4]):
        return {"kind": "patch_merging"}, Form("last")
    return None


def _turned(
    name: str, node: fx.Node, form: Form | None, before: Any, after: Any
) -> tuple[Layer | None, Form | None] | None:
    order = axes_order(name, node, len(before) + 1)
    if form is None and len(before) == 3 and order == (0, 2, 3, 1):
        return None, Form("last")
    if form == Form("last") and order == (0, 3, 1, 2):
        return None, None
    if form == Form("squares") and order == (0, 1, 3, 4, 2, 5):
        return None, Form("merged")
    if form == Form("flat") and order == (0, 2, 1):
        return {"kind": "tokens"}, None
    if form is not None and form.name == "grouped" and order == (0, 2, 1, 3, 4):
        return None, Form("shuffled", form.groups)
    return None


def axes_order(name: str, node: fx.Node, axes: int) -> tuple[int, ...]:
    """The order of the axes, with that of the batch."""
    given = node.args[1:] or tuple(node.kwargs.values())
    numbers = given[0] if len(given) == 1 and isinstance(given[0], (list, tuple)) else given
    found = [int(each) % axes for each in numbers]
    if name == "permute":
        return tuple(found)
    order = list(range(axes))
    one, other = found
    order[one], order[other] = other, one
    return tuple(order)
