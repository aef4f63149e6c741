"""Operations with a tensor of the module itself: a scale, a norm, a class token, positions."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from .common import Layer, Refused, pair
from .pytorch_operations import argument

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
    if make := MODULES.get(name):
        return make(node, attributes, before, channels_last=channels_last)
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


def _roles(
    node: fx.Node, attributes: dict[str, torch.Tensor], places: dict[str, int]
) -> dict[str, torch.Tensor]:
    """The tensors of the module by role, from the places of the roles among the arguments."""
    found = {role: argument(node, place, role) for role, place in places.items()}
    return {
        role: attributes[each.name]
        for role, each in found.items()
        if isinstance(each, fx.Node) and each.name in attributes
    }


def _batch_norm(
    node: fx.Node, attributes: dict[str, torch.Tensor], before: Any, *, channels_last: bool
) -> tuple[Layer, Weights]:
    places = {"running_mean": 1, "running_var": 2, "weight": 3, "bias": 4}
    roles = _roles(node, attributes, places)
    momentum = argument(node, 6, "momentum", 0.1)
    if len(roles) < len(places) or momentum is None or len(before) not in (1, 3) or channels_last:
        raise Refused("a batch norm has a scale, a bias, running statistics and a momentum")
    layer = {
        "kind": "batch_norm",
        "channels": int(roles["weight"].shape[0]),
        "epsilon": float(argument(node, 7, "eps", 1e-5)),
        "momentum": float(momentum),
        "initial_scale": 1.0,
        "images": len(before) == 3,
    }
    names = {"running_mean": "mean", "running_var": "variance"}
    return layer, {names.get(role, role): each for role, each in roles.items()}


def _linear(
    node: fx.Node, attributes: dict[str, torch.Tensor], before: Any, *, channels_last: bool
) -> tuple[Layer, Weights]:
    roles = _roles(node, attributes, {"weight": 1, "bias": 2})
    if "weight" not in roles or channels_last:
        raise Refused("a linear layer has a weight, and takes features")
    rows, columns = roles["weight"].shape
    sizes = {"in_features": columns, "out_features": rows}
    return {"kind": "dense", **sizes, "bias": "bias" in roles}, roles


def _convolution(
    node: fx.Node, attributes: dict[str, torch.Tensor], before: Any, *, channels_last: bool
) -> tuple[Layer, Weights]:
    roles = _roles(node, attributes, {"weight": 1, "bias": 2})
    padding = argument(node, 4, "padding", 0)
    if "weight" not in roles or isinstance(padding, str) or len(before) != 3:
        raise Refused("a convolution has a weight, and numbers as padding")
    channels, _, *kernel = roles["weight"].shape
    layer = {
        "kind": "conv2d",
        "in_channels": before[0],
        "out_channels": channels,
        "kernel": kernel,
        "stride": pair(argument(node, 3, "stride", 1)),
        "padding": pair(padding),
        "bias": "bias" in roles,
        "groups": int(argument(node, 6, "groups", 1)),
        "dilation": pair(argument(node, 5, "dilation", 1)),
    }
    return layer, roles


# Functions that compute what a module does, with the tensors of another module.
MODULES = {"batch_norm": _batch_norm, "linear": _linear, "conv2d": _convolution}
