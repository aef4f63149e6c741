"""Operations with a tensor of the module itself: a scale, a norm, a class token, positions."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from .common import Layer, Refused

Weights = dict[str, torch.Tensor]


def of_attribute(
    name: str,
    node: fx.Node,
    attributes: dict[str, torch.Tensor],
    before: Any,
    after: Any,
    *,
    channels_last: bool,
) -> tuple[Layer, Weights]:
    """The layer and its weights by role; Refused where it is none.

    `attributes` are the tensors of the module among the node's arguments, by their nodes' names.
    """
    given = list(attributes.values())
    if not all(isinstance(each, torch.nn.Parameter) for each in given):
        raise Refused("a tensor of the module that is no parameter of a layer")
    if name == "layer_norm" and len(given) == 2:
        return _layer_norm(node, given, channels_last=channels_last)
    (values, *others) = given
    if others:
        raise Refused("several tensors of the module")
    shape = tuple(values.shape)
    if name == "mul" and len(before) == 3:
        channels = before[-1] if channels_last else before[0]
        forms = [(channels,), (1, 1, channels), (1, 1, 1, channels)]
        if not channels_last:
            forms = [(channels, 1, 1), (1, channels, 1, 1)]
        if shape in forms:
            scale = {"kind": "scale", "channels": channels, "initial_scale": float(values.mean())}
            return scale, {"weight": values.reshape(-1)}
    if name == "add" and len(before) == 2 and shape in (tuple(before), (1, *before)):
        sizes = {"length": before[0], "features": before[1]}
        return {"kind": "position_embedding", **sizes}, {"weight": values.reshape(before)}
    if name == "cat" and len(after) == 2 and tuple(after) == (before[0] + 1, before[1]):
        first: Any = node.args[0]
        if first[0].name in attributes and values.numel() == after[1]:
            token = {"kind": "class_token", "features": after[1]}
            return token, {"weight": values.reshape(-1)}
    raise Refused(f"a tensor of the module, {shape}, that is no parameter of a layer")


def _layer_norm(
    node: fx.Node, given: list[torch.Tensor], *, channels_last: bool
) -> tuple[Layer, Weights]:
    weight, bias = given
    epsilon: Any = node.args[4] if len(node.args) > 4 else node.kwargs.get("eps", 1e-5)
    if weight.ndim != 1:
        raise Refused("a layer norm is over one axis")
    layer = {
        "kind": "layer_norm",
        "features": int(weight.shape[0]),
        "epsilon": float(epsilon),
        "images": channels_last,
    }
    return layer, {"weight": weight, "bias": bias}
