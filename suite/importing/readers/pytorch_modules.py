"""Modules of PyTorch as layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from .common import Layer, Refused, flattened, of_signal, pad, pair, sides, simple
from .pytorch_recurrent import KINDS, recurrent

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
