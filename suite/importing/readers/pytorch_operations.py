"""Functions and methods of PyTorch as layers."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.nn import functional

from .common import Layer, Refused, flattened, pad, simple, whole_pool
from .pytorch_modules import (
    adaptive_pool,
    avg_pool,
    avg_pool1d,
    dropout,
    gelu,
    leaky_relu,
    local_response_norm,
    max_pool,
    max_pool1d,
    upsample,
)
from .pytorch_recurrent import member
from .pytorch_windows import merging


def argument(node: fx.Node, position: int, name: str, default: Any = None) -> Any:
    return node.args[position] if len(node.args) > position else node.kwargs.get(name, default)


def padded(node: fx.Node, before: Any, after: Any) -> Layer | None:
    """`functional.pad`, whose numbers begin with the last axis."""
    numbers = [*argument(node, 1, "pad")]
    if argument(node, 2, "mode", "constant") != "constant" or argument(node, 3, "value", 0):
        raise Refused("a padding is with zeros")
    left, right, top, bottom, *others = [*numbers, 0, 0, 0, 0]
    if any(others) or len(before[0]) != 3:
        raise Refused(f"padding {numbers}: of the height and width of an image")
    return pad(top, bottom, left, right)


def stochastic_depth(node: fx.Node, before: Any, after: Any) -> Layer | None:
    """Of torchvision; traced in inference, it is nothing."""
    if not argument(node, 3, "training", True):
        return None
    if argument(node, 2, "mode") != "row":
        raise Refused("stochastic depth leaves out single samples, not the batch")
    return dropout(argument(node, 1, "p"), whole=True)


def reduced(node: fx.Node, before: Any, after: Any) -> Layer:
    """A mean over height and width, or over the members of a sequence."""
    channels = before[0][0]
    if len(before[0]) == 2 and argument(node, 1, "dim") == 1 and tuple(after) == before[0][1:]:
        return {"kind": "mean_token"}
    if len(before[0]) == 3 and tuple(after) == (channels,):
        return {"kind": "global_avg_pool2d"}
    if len(before[0]) == 3 and tuple(after) == (channels, 1, 1):
        return whole_pool(before[0])
    raise Refused(f"{before[0]} to {after}: a mean is over height and width")


def multiplied(node: fx.Node, before: Any, after: Any) -> Layer:
    if len(before) != 2 or len({len(each) for each in before}) != 1:
        raise Refused("a product is that of two tensors with as many axes")
    return {"kind": "multiply"}


def added(node: fx.Node, before: Any, after: Any) -> Layer:
    if len(before) != 2 or before[0] != before[1] or node.kwargs.get("alpha", 1) != 1:
        raise Refused("a sum is that of two tensors of one shape")
    return {"kind": "add"}


def concatenated(node: fx.Node, before: Any, after: Any) -> Layer:
    axis = argument(node, 1, "dim", 0)
    if len(after) == 2 and axis in (2, -1):
        return {"kind": "concat", "sequence": True}
    if len(after) == 2 or axis not in (1, -len(after)):
        raise Refused(f"axis {axis}: a concatenation is along channels or features")
    return {"kind": "concat"}


def taken(node: fx.Node, before: Any, after: Any) -> Layer | None:
    """Some channels of an image, x[:, a:b]; the whole of anything; or a member of a sequence."""
    index: Any = node.args[1]
    slices = isinstance(index, tuple) and all(isinstance(each, slice) for each in index)
    if slices and before and tuple(after) == tuple(before[0]):
        steps = [each.step for each in index]
        if all(step in (None, 1) for step in steps):
            return None
    if slices and before and len(before[0]) == 3 and tuple(after[1:]) == tuple(before[0][1:]):
        start, stop, step = index[1].indices(before[0][0])
        if step == 1:
            return {"kind": "channel_slice", "start": start, "stop": stop}
    return member(node, before, after)


def of_max_pool(node: fx.Node) -> tuple[Any, Any, Any, Any, Any]:
    """The arguments of a function max_pool1d or max_pool2d, after the values."""
    return (
        argument(node, 1, "kernel_size"),
        argument(node, 2, "stride"),
        argument(node, 3, "padding", 0),
        argument(node, 4, "dilation", 1),
        argument(node, 5, "ceil_mode", False),
    )


def of_avg_pool(node: fx.Node) -> tuple[Any, Any, Any, Any, Any]:
    """The arguments that avg_pool1d and avg_pool2d share, after the values."""
    return (
        argument(node, 1, "kernel_size"),
        argument(node, 2, "stride"),
        argument(node, 3, "padding", 0),
        argument(node, 4, "ceil_mode", False),
        argument(node, 5, "count_include_pad", True),
    )


Operation = Callable[[fx.Node, Any, Any], Layer | None]
OPERATIONS: dict[str, Operation] = {
    **{kind: simple(kind) for kind in ("relu", "tanh", "relu6", "sigmoid", "silu")},
    **{kind: simple(kind) for kind in ("hard_sigmoid", "hard_swish")},
    "leaky_relu": lambda node, before, after: leaky_relu(argument(node, 1, "negative_slope", 0.01)),
    "stochastic_depth": stochastic_depth,
    "gelu": lambda node, before, after: gelu(argument(node, 1, "approximate", "none")),
    "dropout": lambda node, before, after: dropout(
        argument(node, 1, "p", 0.5) if argument(node, 2, "training", True) else 0
    ),
    "flatten": lambda node, before, after: flattened(before[0], after),
    "view": lambda node, before, after: flattened(before[0], after),
    "reshape": lambda node, before, after: flattened(before[0], after),
    "squeeze": lambda node, before, after: flattened(before[0], after),
    "mean": reduced,
    "_patch_merging_pad": merging,
    "pad": padded,
    "getitem": taken,
    "add": added,
    "mul": multiplied,
    "cat": concatenated,
    "max_pool2d": lambda node, before, after: max_pool(*of_max_pool(node)),
    "avg_pool2d": lambda node, before, after: avg_pool(
        *of_avg_pool(node), argument(node, 6, "divisor_override"), before[0]
    ),
    "max_pool1d": lambda node, before, after: max_pool1d(*of_max_pool(node)),
    "avg_pool1d": lambda node, before, after: avg_pool1d(*of_avg_pool(node), before[0]),
    "local_response_norm": lambda node, before, after: local_response_norm(
        argument(node, 1, "size"),
        argument(node, 2, "alpha", 1e-4),
        argument(node, 3, "beta", 0.75),
        argument(node, 4, "k", 1.0),
    ),
    "adaptive_avg_pool": lambda node, before, after: adaptive_pool(before[0], after),
    "adaptive_max_pool": lambda node, before, after: adaptive_pool(before[0], after, "max_pool2d"),
    "interpolate": lambda node, before, after: upsample(
        before[0],
        after,
        argument(node, 3, "mode", "nearest"),
        argument(node, 4, "align_corners"),
    ),
}
# The names of functions by which OPERATIONS has them; methods have their own names.
FUNCTIONS: dict[Any, str] = {
    functional.relu: "relu",
    torch.relu: "relu",
    torch.tanh: "tanh",
    functional.tanh: "tanh",
    functional.relu6: "relu6",
    torch.sigmoid: "sigmoid",
    functional.sigmoid: "sigmoid",
    functional.silu: "silu",
    functional.hardsigmoid: "hard_sigmoid",
    functional.hardswish: "hard_swish",
    functional.leaky_relu: "leaky_relu",
    operator.getitem: "getitem",
    functional.softmax: "softmax",
    torch.softmax: "softmax",
    functional.log_softmax: "log_softmax",
    torch.log_softmax: "log_softmax",
    functional.local_response_norm: "local_response_norm",
    functional.pad: "pad",
    functional.layer_norm: "layer_norm",
    functional.batch_norm: "batch_norm",
    functional.linear: "linear",
    functional.conv2d: "conv2d",
    torch.chunk: "chunk",
    torch.split: "split",
    torch.permute: "permute",
    torch.transpose: "transpose",
    operator.mul: "mul",
    operator.imul: "mul",
    torch.mul: "mul",
    functional.gelu: "gelu",
    functional.dropout: "dropout",
    torch.flatten: "flatten",
    torch.reshape: "reshape",
    torch.squeeze: "squeeze",
    torch.mean: "mean",
    operator.add: "add",
    operator.iadd: "add",
    torch.add: "add",
    torch.cat: "cat",
    torch.concat: "cat",
    functional.max_pool2d: "max_pool2d",
    torch.max_pool2d: "max_pool2d",
    functional.avg_pool2d: "avg_pool2d",
    functional.max_pool1d: "max_pool1d",
    torch.max_pool1d: "max_pool1d",
    functional.avg_pool1d: "avg_pool1d",
    functional.adaptive_avg_pool1d: "adaptive_avg_pool",
    functional.adaptive_avg_pool2d: "adaptive_avg_pool",
    functional.adaptive_max_pool1d: "adaptive_max_pool",
    functional.adaptive_max_pool2d: "adaptive_max_pool",
    functional.interpolate: "interpolate",
}
