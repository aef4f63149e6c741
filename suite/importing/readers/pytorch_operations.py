"""Modules, functions and methods of PyTorch as layers."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional

from .common import Layer, Refused, flattened, of_signal, pad, pair, sides, simple, whole_pool
from .pytorch_recurrent import KINDS, member, recurrent
from .pytorch_windows import merging

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)


def convolution(module: Any, before: Any, after: Any) -> Layer:
    """Of an image, or of a signal, which is an image of height 1."""
    if module.padding_mode != "zeros":
        raise Refused(f"padding_mode={module.padding_mode!r}: a convolution pads with zeros")
    return {
        "kind": "conv2d",
        "in_channels": module.in_channels,
        "out_channels": module.out_channels,
        "kernel": _window(module.kernel_size, 1),
        "stride": _window(module.stride, 1),
        **_padding(module),
        "bias": module.bias is not None,
        "groups": module.groups,
        "dilation": _window(module.dilation, 1),
    }


def _window(value: Any, height: int) -> list[int]:
    """The numbers of height and width; of a signal with this height's."""
    return of_signal(value, height) if len(value) == 1 else pair(value)


def _padding(module: Any) -> Layer:
    """The padding of a convolution; PyTorch's "same" has the odd one at the end."""
    if module.padding == "same":
        dilation, kernel = _window(module.dilation, 1), _window(module.kernel_size, 1)
        totals = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        (top, bottom), (left, right) = [(each // 2, each - each // 2) for each in totals]
        return sides(top, bottom, left, right)
    return {"padding": [0, 0] if module.padding == "valid" else _window(module.padding, 0)}


def attention(module: nn.MultiheadAttention, before: Any, after: Any) -> Layer:
    plain = (
        module.batch_first
        and module.in_proj_bias is not None
        and module.bias_k is None
        and not module.add_zero_attn
        and module.in_proj_weight is not None
    )
    if not plain or module.dropout:
        raise Refused(
            "attention of a layer has batch_first, one bias for all products, and no dropout"
        )
    sizes = {"features": module.embed_dim, "heads": module.num_heads}
    return {"kind": "self_attention", **sizes, "causal": False}


def padded(node: fx.Node, before: Any, after: Any) -> Layer | None:
    """`functional.pad`, whose numbers begin with the last axis."""
    numbers = [*argument(node, 1, "pad")]
    if argument(node, 2, "mode", "constant") != "constant" or argument(node, 3, "value", 0):
        raise Refused("a padding is with zeros")
    left, right, top, bottom, *others = [*numbers, 0, 0, 0, 0]
    if any(others) or len(before[0]) != 3:
        raise Refused(f"padding {numbers}: of the height and width of an image")
    return pad(top, bottom, left, right)


def linear(module: nn.Linear, before: Any, after: Any) -> Layer:
    return {
        "kind": "dense",
        "in_features": module.in_features,
        "out_features": module.out_features,
        "bias": module.bias is not None,
    }


def batch_norm(module: Any, before: Any, after: Any) -> Layer:
    if len(before) not in (1, 3):
        raise Refused("a batch norm takes images or vectors")
    if not module.affine or not module.track_running_stats or module.momentum is None:
        raise Refused("a batch norm has a scale, a bias, running statistics and a momentum")
    return {
        "kind": "batch_norm",
        "channels": module.num_features,
        "epsilon": module.eps,
        "momentum": module.momentum,
        "initial_scale": 1.0,
        "images": len(before) == 3,
    }


def layer_norm(module: nn.LayerNorm, before: Any, after: Any) -> Layer:
    if len(module.normalized_shape) != 1 or not module.elementwise_affine or module.bias is None:
        raise Refused("a layer norm is over the last axis, with a scale and a bias")
    return {"kind": "layer_norm", "features": module.normalized_shape[0], "epsilon": module.eps}


def group_norm(module: nn.GroupNorm, before: Any, after: Any) -> Layer:
    if len(before) != 3 or not module.affine:
        raise Refused("a group norm takes images, and has a scale and a bias")
    sizes = {"channels": module.num_channels, "groups": module.num_groups}
    return {"kind": "group_norm", **sizes, "epsilon": module.eps}


def instance_norm(module: nn.InstanceNorm2d, before: Any, after: Any) -> Layer:
    if not module.affine or module.track_running_stats:
        raise Refused("an instance norm has a scale and a bias, and no running statistics")
    channels = module.num_features
    return {"kind": "group_norm", "channels": channels, "groups": channels, "epsilon": module.eps}


def local_response_norm(size: Any, alpha: Any, beta: Any, k: Any) -> Layer:
    if int(size) % 2 == 0:
        raise Refused(f"size={size}: a local response norm has an odd number of channels")
    numbers = {"alpha": float(alpha), "beta": float(beta), "k": float(k)}
    return {"kind": "local_response_norm", "size": int(size), **numbers}


def rms_norm(module: nn.RMSNorm, before: Any, after: Any) -> Layer:
    if len(module.normalized_shape) != 1 or len(before) != 2 or module.weight is None:
        raise Refused("an RMS norm is over the last axis of a sequence, with a scale")
    if module.eps is None:
        raise Refused("eps=None is another number in each type: give it")
    return {"kind": "rms_norm", "features": module.normalized_shape[0], "epsilon": module.eps}


def transposed(module: Any, before: Any, after: Any) -> Layer:
    if module.groups != 1 or _window(module.dilation, 1) != [1, 1]:
        raise Refused("a transposed convolution has one group and no dilation")
    return {
        "kind": "conv2d_transposed",
        "in_channels": module.in_channels,
        "out_channels": module.out_channels,
        "kernel": _window(module.kernel_size, 1),
        "stride": _window(module.stride, 1),
        "padding": _window(module.padding, 0),
        "extra": _window(module.output_padding, 0),
        "bias": module.bias is not None,
    }


def upsample(before: Any, after: Any, mode: str, align_corners: Any) -> Layer:
    """A resize to whole multiples of height and width."""
    if len(before) != 3 or any(new % old for new, old in zip(after[1:], before[1:], strict=True)):
        raise Refused(f"{tuple(before)} to {tuple(after)}: an image grows by whole factors")
    if mode == "linear" and before[1] == 1:  # of a signal
        mode = "bilinear"
    if mode not in ("nearest", "bilinear") or align_corners:
        raise Refused(f"mode={mode!r}, align_corners={align_corners}: nearest, or bilinear without")
    factor = [new // old for new, old in zip(after[1:], before[1:], strict=True)]
    return {"kind": "upsample", "factor": factor, "mode": mode}


def max_pool(kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool) -> Layer:
    if pair(dilation) != [1, 1]:
        raise Refused(f"dilation={dilation}: a pool has none")
    sizes = {"kernel": pair(kernel), "stride": pair(stride or kernel), "padding": pair(padding)}
    return {"kind": "max_pool2d", **sizes, "ceil": bool(ceil)}


def max_pool1d(kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool) -> Layer:
    sizes = of_signal(kernel, 1), of_signal(stride or kernel, 1), of_signal(padding, 0)
    return max_pool(*sizes, of_signal(dilation, 1), ceil)


def avg_pool1d(
    kernel: Any, stride: Any, padding: Any, ceil: bool, count: bool, before: Any
) -> Layer:
    sizes = of_signal(kernel, 1), of_signal(stride or kernel, 1), of_signal(padding, 0)
    return avg_pool(*sizes, ceil, count, None, before)


def avg_pool(
    kernel: Any, stride: Any, padding: Any, ceil: bool, count: bool, divisor: Any, before: Any
) -> Layer:
    if ceil:  # whether the windows are whole without it
        steps = zip(before[1:], pair(kernel), pair(stride or kernel), pair(padding), strict=True)
        ceil = any((size + 2 * outside - window) % step for size, window, step, outside in steps)
    if ceil or divisor is not None:
        raise Refused("an average pool has whole windows, and no divisor of its own")
    sizes = {"kernel": pair(kernel), "stride": pair(stride or kernel), "padding": pair(padding)}
    counts = bool(count) or not any(pair(padding))
    return {"kind": "avg_pool2d", **sizes, "count_padding": counts}


def adaptive_pool(before: Any, after: Any, kind: str = "avg_pool2d") -> Layer | None:
    """A pool whose windows are equal: over all, or over parts of one size."""
    if tuple(before) == tuple(after):
        return None
    sizes = [(inner, outer) for inner, outer in zip(before[1:], after[1:], strict=True)]
    if any(inner % outer for inner, outer in sizes):
        raise Refused(f"{before[1:]} to {after[1:]}: the windows have several sizes")
    kernel = [inner // outer for inner, outer in sizes]
    return {"kind": kind, "kernel": kernel, "stride": kernel, "padding": [0, 0]}


def dropout(rate: float, *, whole: bool = False) -> Layer | None:
    return {"kind": "dropout", "rate": float(rate), "whole": whole} if rate else None


def stochastic_depth(node: fx.Node, before: Any, after: Any) -> Layer | None:
    """Of torchvision; traced in inference, it is nothing."""
    if not argument(node, 3, "training", True):
        return None
    if argument(node, 2, "mode") != "row":
        raise Refused("stochastic depth leaves out single samples, not the batch")
    return dropout(argument(node, 1, "p"), whole=True)


def is_drop_path(module: nn.Module) -> bool:
    """Whether a module is stochastic depth as in timm, whose code many networks have a copy of."""
    return type(module).__name__ == "DropPath" and hasattr(module, "drop_prob")


def drop_path(module: Any, before: Any, after: Any) -> Layer | None:
    if not getattr(module, "scale_by_keep", True):
        raise Refused("stochastic depth divides by the share of the samples that stay")
    return dropout(module.drop_prob or 0, whole=True)


def gelu(approximate: str) -> Layer:
    return {"kind": "gelu", "approximate": approximate == "tanh"}


def leaky_relu(slope: float) -> Layer:
    return {"kind": "leaky_relu", "slope": float(slope)}


def of_sides(numbers: Any, value: float = 0.0) -> Layer | None:
    """Left, right, top, bottom, as PyTorch has them; of a signal the first two."""
    if value:
        raise Refused(f"value={value:g}: a padding is with zeros")
    left, right, top, bottom = (*numbers, 0, 0)[:4]
    return pad(top, bottom, left, right)


ACTIVATIONS = {
    nn.ReLU: "relu",
    nn.Tanh: "tanh",
    nn.ReLU6: "relu6",
    nn.Sigmoid: "sigmoid",
    nn.SiLU: "silu",
    nn.Hardsigmoid: "hard_sigmoid",
    nn.Hardswish: "hard_swish",
}
ENDINGS: dict[type, str] = {
    nn.Softmax: "softmax",
    nn.LogSoftmax: "log_softmax",
    nn.Sigmoid: "sigmoid",
}
MODULES: dict[type, Callable[[Any, Any, Any], Layer | None]] = {
    **dict.fromkeys((nn.Conv1d, nn.Conv2d), convolution),
    nn.Linear: linear,
    **dict.fromkeys(NORMS, batch_norm),
    nn.LayerNorm: layer_norm,
    nn.GroupNorm: group_norm,
    **dict.fromkeys((nn.InstanceNorm1d, nn.InstanceNorm2d), instance_norm),
    nn.LocalResponseNorm: lambda m, before, after: local_response_norm(
        m.size, m.alpha, m.beta, m.k
    ),
    nn.RMSNorm: rms_norm,
    **dict.fromkeys((nn.ConvTranspose1d, nn.ConvTranspose2d), transposed),
    nn.Upsample: lambda m, before, after: upsample(before, after, m.mode, m.align_corners),
    nn.UpsamplingNearest2d: lambda m, before, after: upsample(before, after, "nearest", None),
    **dict.fromkeys(KINDS, recurrent),
    **{module: simple(kind) for module, kind in ACTIVATIONS.items()},
    nn.LeakyReLU: lambda module, before, after: leaky_relu(module.negative_slope),
    nn.GELU: lambda module, before, after: gelu(module.approximate),
    nn.Identity: lambda module, before, after: None,
    nn.Dropout: lambda module, before, after: dropout(module.p),
    nn.MaxPool2d: lambda m, before, after: max_pool(
        m.kernel_size, m.stride, m.padding, m.dilation, m.ceil_mode
    ),
    nn.AvgPool2d: lambda m, before, after: avg_pool(
        *(m.kernel_size, m.stride, m.padding, m.ceil_mode, m.count_include_pad),
        m.divisor_override,
        before,
    ),
    nn.MaxPool1d: lambda m, before, after: max_pool1d(
        m.kernel_size, m.stride, m.padding, m.dilation, m.ceil_mode
    ),
    nn.AvgPool1d: lambda m, before, after: avg_pool1d(
        m.kernel_size, m.stride, m.padding, m.ceil_mode, m.count_include_pad, before
    ),
    **dict.fromkeys(
        (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d),
        lambda module, before, after: adaptive_pool(before, after),
    ),
    **dict.fromkeys(
        (nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d),
        lambda module, before, after: adaptive_pool(before, after, "max_pool2d"),
    ),
    nn.Flatten: lambda module, before, after: flattened(before, after),
    nn.MultiheadAttention: attention,
    nn.ChannelShuffle: lambda module, before, after: {
        "kind": "channel_shuffle",
        "groups": module.groups,
    },
    **dict.fromkeys(
        (nn.ZeroPad1d, nn.ZeroPad2d), lambda module, before, after: of_sides(module.padding)
    ),
    **dict.fromkeys(
        (nn.ConstantPad1d, nn.ConstantPad2d),
        lambda module, before, after: of_sides(module.padding, module.value),
    ),
}


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


def argument(node: fx.Node, position: int, name: str, default: Any = None) -> Any:
    return node.args[position] if len(node.args) > position else node.kwargs.get(name, default)


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
