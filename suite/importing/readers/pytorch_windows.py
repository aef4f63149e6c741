"""Swin transformers of torchvision as layers; their images have channels last."""

from __future__ import annotations

from typing import Any

from torch import fx, nn

from .common import Layer, Refused, pair

ATTENTION = "ShiftedWindowAttention"
# Our names of its parameters.
ROLES = {
    "qkv.weight": "in_weight",
    "qkv.bias": "in_bias",
    "proj.weight": "out_weight",
    "proj.bias": "out_bias",
    "relative_position_bias_table": "table",
}


def is_attention(module: Any) -> bool:
    """Whether a module is torchvision's attention in windows."""
    own = type(module).__module__.startswith("torchvision.")
    return own and type(module).__name__ == ATTENTION


def attention(module: Any, before: Any, after: Any) -> Layer:
    height, width, features = before
    window = pair(module.window_size)
    if height % window[0] or width % window[1]:
        raise Refused(f"windows of {window} do not divide an image of {height} x {width}")
    if module.dropout or module.attention_dropout:
        raise Refused("attention in windows has no dropout")
    if set(dict(module.named_parameters())) != set(ROLES):
        raise Refused("its products have biases, and its scores a table")
    shifts = zip(pair(module.shift_size), window, (height, width), strict=True)
    return {
        "kind": "window_attention",
        "features": features,
        "heads": module.num_heads,
        "window": window,
        "shift": [move if part < size else 0 for move, part, size in shifts],
    }


def weights(module: nn.Module) -> dict[str, Any]:
    """The parameters by our roles, float64."""
    return {ROLES[name]: each.detach().double().numpy() for name, each in module.named_parameters()}


def merging(node: fx.Node, before: Any, after: Any) -> Layer:
    if before[0][0] % 2 or before[0][1] % 2:
        raise Refused(f"an image of {before[0][0]} x {before[0][1]} is not made of squares of four")
    return {"kind": "patch_merging"}
