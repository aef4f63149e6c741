"""Operators of ONNX as layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import helper

from . import common, onnx_signals
from .common import Refused, flattened, same_sides, sides, simple, whole_pool

if TYPE_CHECKING:
    from .in_onnx import Converter

CLIP_TO_6 = (0.0, 6.0)
ENDINGS = {"Softmax": "softmax", "LogSoftmax": "log_softmax", "Sigmoid": "sigmoid"}


def options_of(node: Any) -> dict[str, Any]:
    """The attributes of a node by name."""
    return {each.name: helper.get_attribute_value(each) for each in node.attribute}


def number(options: dict[str, Any], name: str, default: float) -> float:
    """An attribute in float32 as the shortest decimal number: 0.1, not 0.10000000149."""
    return float(np.float32(options.get(name, default)).astype(str))


def window(options: dict[str, Any], kernel: Any, shape: tuple[int, ...]) -> dict[str, Any]:
    """Kernel, stride and padding of a window on an input of `shape`."""
    sizes, strides = [int(each) for each in kernel], list(options.get("strides", [1, 1]))
    dilation = options.get("dilations", [1, 1])
    mode = options.get("auto_pad", b"NOTSET").decode()
    top, left, bottom, right = options.get("pads", [0, 0, 0, 0])
    if mode.startswith("SAME"):
        extent = [d * (k - 1) + 1 for d, k in zip(dilation, sizes, strict=True)]
        top, bottom, left, right = same_sides(shape[1:], extent, strides)
        if mode == "SAME_LOWER":
            top, bottom, left, right = bottom, top, right, left
    return {
        "kernel": sizes,
        "stride": [int(each) for each in strides],
        **sides(int(top), int(bottom), int(left), int(right)),
    }


def conv(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    weight, bias = _kernel(graph, node), graph.constant(node, 2)
    if weight.ndim != 4:
        raise Refused(f"{weight.ndim - 2} axes: a convolution has one or two")
    groups = int(options.get("group", 1))
    graph.weights[f"{name}.weight"] = weight.astype(np.float64)
    if bias is not None:
        graph.weights[f"{name}.bias"] = bias.astype(np.float64)
    return {
        "kind": "conv2d",
        "in_channels": int(weight.shape[1]) * groups,
        "out_channels": int(weight.shape[0]),
        **window(options, weight.shape[2:], graph.shape_of(node.input[0])),
        "bias": bias is not None,
        "groups": groups,
        "dilation": [int(each) for each in options.get("dilations", [1, 1])],
    }


def _kernel(graph: Converter, node: Any) -> Any:
    """The weight of a convolution; of a signal with a height of 1."""
    weight = graph.constant(node, 1)
    return weight[:, :, None] if weight.ndim == 3 else weight


def gemm(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    if options.get("transA") or options.get("alpha", 1) != 1 or options.get("beta", 1) != 1:
        raise Refused("a dense layer has alpha 1, beta 1 and no transposed input")
    weight = graph.constant(node, 1)
    return dense(
        graph, name, weight if options.get("transB") else weight.T, graph.constant(node, 2)
    )


def matmul(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    weight = graph.constant(node, 1)
    if weight.ndim != 2:
        raise Refused(f"a weight of shape {weight.shape}: a matrix")
    if not graph.channels_last(node.input[0]):
        return dense(graph, name, weight.T, None)
    graph.weights[f"{name}.weight"] = weight.T[:, :, None, None].astype(np.float64)
    sizes = {"in_channels": int(weight.shape[0]), "out_channels": int(weight.shape[1])}
    return {"kind": "conv2d", **sizes, "kernel": [1, 1], "bias": False}


def dense(graph: Converter, name: str, weight: Any, bias: Any) -> dict[str, Any]:
    graph.weights[f"{name}.weight"] = weight.astype(np.float64)
    if bias is not None:
        graph.weights[f"{name}.bias"] = np.broadcast_to(bias.reshape(-1), weight.shape[:1]).astype(
            np.float64
        )
    outputs, inputs = (int(each) for each in weight.shape)
    features = {"in_features": inputs, "out_features": outputs}
    return {"kind": "dense", **features, "bias": bias is not None}


def batch_norm(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    before = graph.shape_of(node.input[0])
    if len(before) not in (1, 3):
        raise Refused("a batch norm takes images or vectors")
    for position, role in enumerate(("weight", "bias", "mean", "variance"), 1):
        graph.weights[f"{name}.{role}"] = graph.constant(node, position).astype(np.float64)
    return {
        "kind": "batch_norm",
        "channels": len(graph.constant(node, 1)),
        "epsilon": number(options, "epsilon", 1e-5),
        "momentum": round(1 - float(options.get("momentum", 0.9)), 6),
        "initial_scale": 1.0,
        "images": len(before) == 3,
    }


def max_pool(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    if list(options.get("dilations", [1, 1])) != [1, 1] or len(node.output) > 1:
        raise Refused("a pool has no dilation and no indices")
    sizes = window(options, options["kernel_shape"], graph.shape_of(node.input[0]))
    return {"kind": "max_pool2d", **sizes, "ceil": bool(options.get("ceil_mode", 0))}


def avg_pool(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    sizes = window(options, options["kernel_shape"], graph.shape_of(node.input[0]))
    if options.get("ceil_mode", 0):
        raise Refused("an average pool has whole windows")
    padded = any((*sizes["padding"], *sizes["extra_padding"]))
    counts = bool(options.get("count_include_pad", 0)) or not padded
    return {"kind": "avg_pool2d", **sizes, "count_padding": counts}


def global_pool(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    return whole_pool(graph.shape_of(node.input[0]))


def reduce_mean(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    axes = options.get("axes")
    axes = graph.constant(node, 1) if axes is None else axes
    signal = graph.is_signal(node.input[0])
    if axes is None or not _is_whole(axes, signal=signal):
        raise Refused(f"axes {axes}: a mean is over height and width")
    if options.get("keepdims", 1):
        return global_pool(graph, node, name, options)
    return {"kind": "global_avg_pool2d"}


def _is_whole(axes: Any, *, signal: bool) -> bool:
    """Whether the axes are height and width, or the length of a signal."""
    return sorted(onnx_signals.axes(axes, signal=signal)) == ([3] if signal else [2, 3])


def reshape(
    graph: Converter, node: Any, name: str, options: dict[str, Any]
) -> dict[str, Any] | None:
    return flattened(graph.shape_of(node.input[0]), graph.shape_of(node.output[0]))


def clip(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    low = options.get("min", graph.constant(node, 1))
    high = options.get("max", graph.constant(node, 2))
    if low is None or high is None or (float(low), float(high)) != CLIP_TO_6:
        raise Refused(f"between {low} and {high}: relu6 is between 0 and 6")
    return {"kind": "relu6"}


def hard_sigmoid(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    alpha, beta = number(options, "alpha", 0.2), number(options, "beta", 0.5)
    if alpha <= 0 or beta != 0.5:
        raise Refused(f"alpha {alpha:g}, beta {beta:g}: alpha is positive, beta 0.5")
    return {"kind": "hard_sigmoid", "slope": 1 / 6 if abs(alpha - 1 / 6) < 1e-6 else alpha}


def add(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any] | None:
    """A join, or the bias of the dense layer before."""
    constant = [each for each in node.input if graph.is_constant(each)]
    if not constant:
        if len({graph.shape_of(each) for each in node.input}) > 1:
            raise Refused("a sum is that of two tensors of one shape")
        return {"kind": "add"}
    value = next(each for each in node.input if not graph.is_constant(each))
    before = graph.layer_before(value)
    bias = graph.constant(node, list(node.input).index(constant[0]))
    layer = before["layer"] or {}
    if layer.get("kind") == "batch_norm" and bias.size == layer["channels"]:
        _must_be_alone(graph, value)
        graph.weights[f"{before['name']}.bias"] += bias.reshape(-1).astype(np.float64)
        return None
    outputs = layer.get("out_features", layer.get("out_channels"))
    if layer.get("kind") not in ("dense", "conv2d") or layer["bias"] or bias.size != outputs:
        raise Refused("a constant is added: only the bias of a product or a batch norm is one")
    _must_be_alone(graph, value)
    layer["bias"] = True
    graph.weights[f"{before['name']}.bias"] = bias.reshape(-1).astype(np.float64)
    return None


def _must_be_alone(graph: Converter, value: str) -> None:
    if not graph.is_used_once(value):
        raise Refused("its input is used without the constant too")


def multiply(
    graph: Converter, node: Any, name: str, options: dict[str, Any]
) -> dict[str, Any] | None:
    """A join, a factor for each channel, or a part of the batch norm before."""
    constant = [each for each in node.input if graph.is_constant(each)]
    if not constant:
        return {"kind": "multiply"}
    value = next(each for each in node.input if not graph.is_constant(each))
    factors = graph.constant(node, list(node.input).index(constant[0])).astype(np.float64)
    shape = graph.shape_of(value)
    last = graph.channels_last(value)
    channels = shape[-1] if last else shape[0]
    forms = [(channels,), (1, 1, channels)] if last else [(channels, 1, 1)]
    if len(shape) != 3 or tuple(each for each in factors.shape[-3:]) not in forms:
        raise Refused(f"a constant of shape {factors.shape} is multiplied: one for each channel is")
    before = graph.layer_before(value)
    if (before["layer"] or {}).get("kind") == "batch_norm" and graph.is_used_once(value):
        for role in ("weight", "bias"):
            graph.weights[f"{before['name']}.{role}"] *= factors.reshape(-1)
        return None
    graph.weights[f"{name}.weight"] = factors.reshape(-1)
    mean = float(factors.mean())
    return {"kind": "scale", "channels": channels, "initial_scale": mean}


def layer_norm(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    weight, bias, before = (
        graph.constant(node, 1),
        graph.constant(node, 2),
        graph.shape_of(node.input[0]),
    )
    if options.get("axis", -1) not in (-1, len(before)) or bias is None:
        raise Refused("a layer norm is over the last axis, with a scale and a bias")
    graph.weights[f"{name}.weight"] = weight.astype(np.float64)
    graph.weights[f"{name}.bias"] = bias.astype(np.float64)
    epsilon = number(options, "epsilon", 1e-5)
    images = graph.channels_last(node.input[0])
    if len(before) == 3 and not images:
        raise Refused("the last axis of an image is its width")
    return {"kind": "layer_norm", "features": len(weight), "epsilon": epsilon, "images": images}


def group_norm(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    """GroupNormalization, and InstanceNormalization, which has a group for each channel."""
    weight, bias = graph.constant(node, 1), graph.constant(node, 2)
    channels = graph.shape_of(node.input[0])[0]
    if len(graph.shape_of(node.input[0])) != 3 or len(weight) != channels:
        raise Refused("a group norm takes images, and has a scale for each channel")
    graph.weights[f"{name}.weight"] = weight.astype(np.float64)
    graph.weights[f"{name}.bias"] = bias.astype(np.float64)
    sizes = {"channels": channels, "groups": int(options.get("num_groups", channels))}
    epsilon = number(options, "epsilon", 1e-5)
    return {"kind": "group_norm", **sizes, "epsilon": epsilon}


def local_response_norm(
    graph: Converter, node: Any, name: str, options: dict[str, Any]
) -> dict[str, Any]:
    if options["size"] % 2 == 0 or len(graph.shape_of(node.input[0])) != 3:
        raise Refused("a local response norm takes images, and an odd number of channels")
    return {
        "kind": "local_response_norm",
        "size": int(options["size"]),
        "alpha": number(options, "alpha", 1e-4),
        "beta": number(options, "beta", 0.75),
        "k": number(options, "bias", 1.0),
    }


def transposed(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    weight, bias = _kernel(graph, node), graph.constant(node, 2)
    pads = list(options.get("pads", [0, 0, 0, 0]))
    plain = (
        weight.ndim == 4
        and options.get("group", 1) == 1
        and list(options.get("dilations", [1, 1])) == [1, 1]
        and options.get("auto_pad", b"NOTSET") == b"NOTSET"
        and pads[:2] == pads[2:]
        and "output_shape" not in options
    )
    if not plain:
        raise Refused("a transposed convolution has two axes, one group, and equal sides")
    graph.weights[f"{name}.weight"] = weight.astype(np.float64)
    if bias is not None:
        graph.weights[f"{name}.bias"] = bias.astype(np.float64)
    return {
        "kind": "conv2d_transposed",
        "in_channels": int(weight.shape[0]),
        "out_channels": int(weight.shape[1]),
        "kernel": [int(each) for each in weight.shape[2:]],
        "stride": [int(each) for each in options.get("strides", [1, 1])],
        "padding": [int(each) for each in pads[:2]],
        "extra": [int(each) for each in options.get("output_padding", [0, 0])],
        "bias": bias is not None,
    }


def resize(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    before, after = graph.shape_of(node.input[0]), graph.shape_of(node.output[0])
    mode = options.get("mode", b"nearest").decode()
    place = options.get("coordinate_transformation_mode", b"half_pixel").decode()
    # Of whole factors, these give each value to the pixels nearest to it.
    nearest = (place, options.get("nearest_mode", b"round_prefer_floor").decode())
    known = [("asymmetric", "floor"), ("half_pixel", "round_prefer_floor")]
    fits = nearest in known if mode == "nearest" else (mode, place) == ("linear", "half_pixel")
    if len(before) != 3 or after[0] != before[0] or not fits:
        raise Refused(f"mode {mode}, {place}: nearest, or linear by half pixels")
    if any(new % old for new, old in zip(after[1:], before[1:], strict=True)):
        raise Refused(f"{before} to {after}: an image grows by whole factors")
    factor = [new // old for new, old in zip(after[1:], before[1:], strict=True)]
    return {"kind": "upsample", "factor": factor, "mode": "bilinear" if mode == "linear" else mode}


def sliced(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Consecutive channels of an image, or an image without a part of its sides."""
    starts = options.get("starts", graph.constant(node, 1))
    axes = options.get("axes", graph.constant(node, 3))
    steps = graph.constant(node, 4)
    before, after = graph.shape_of(node.input[0]), graph.shape_of(node.output[0])
    signal = graph.is_signal(node.input[0])
    given = (
        {}
        if axes is None or len(before) != 3
        else dict(zip(onnx_signals.axes(axes, signal=signal), starts, strict=True))
    )
    if len(before) != 3 or (steps is not None and any(each != 1 for each in steps)):
        raise Refused("a slice has consecutive channels of an image, or rows and columns")
    first = {axis: int(start) % before[axis - 1] for axis, start in given.items() if axis}
    if [*given] == [1]:
        return {"kind": "channel_slice", "start": first[1], "stop": first[1] + after[0]}
    if not given or not set(given) <= {2, 3}:
        raise Refused("a slice has consecutive channels of an image, or rows and columns")
    top, left = first.get(2, 0), first.get(3, 0)
    ends = {"bottom": before[1] - after[1] - top, "right": before[2] - after[2] - left}
    return {"kind": "cropping2d", "top": top, "left": left, **ends}


def concat(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    axis = options["axis"]
    rank = len(graph.shape_of(node.output[0])) - graph.is_signal(node.output[0])
    if axis not in (1, -rank):
        raise Refused(f"axis {axis}: a concatenation is along the channels")
    return {"kind": "concat"}


def dropout(
    graph: Converter, node: Any, name: str, options: dict[str, Any]
) -> dict[str, Any] | None:
    ratio = options.get("ratio", graph.constant(node, 1))
    rate = 0.5 if ratio is None else float(ratio)
    return {"kind": "dropout", "rate": rate, "whole": False} if rate else None


def leaky_relu(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": "leaky_relu",
        "slope": number(options, "alpha", 0.01),
    }


def gelu(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "gelu", "approximate": options.get("approximate", b"none") == b"tanh"}


def pad(graph: Converter, node: Any, name: str, options: dict[str, Any]) -> dict[str, Any] | None:
    pads = options.get("pads")
    pads = onnx_signals.pads(graph.constant(node, 1)) if pads is None else pads
    value = options.get("value", graph.constant(node, 2) or 0)
    if options.get("mode", b"constant") != b"constant" or float(value) or len(pads) != 8:
        raise Refused("a padding of an image is with zeros")
    numbers = [int(each) for each in pads]
    if any((*numbers[:2], *numbers[4:6])):
        raise Refused(f"pads {numbers}: of the height and width of an image")
    return common.pad(numbers[2], numbers[6], numbers[3], numbers[7])


OPERATORS: dict[str, Callable[..., dict[str, Any] | None]] = {
    "Conv": conv,
    "Gemm": gemm,
    "MatMul": matmul,
    "BatchNormalization": batch_norm,
    "MaxPool": max_pool,
    "AveragePool": avg_pool,
    "GlobalAveragePool": global_pool,
    "ReduceMean": reduce_mean,
    "Flatten": reshape,
    "Reshape": reshape,
    "Squeeze": reshape,
    "Identity": lambda *_: None,
    "Dropout": dropout,
    "Relu": simple("relu"),
    "Tanh": simple("tanh"),
    "Sigmoid": simple("sigmoid"),
    "HardSwish": simple("hard_swish"),
    "HardSigmoid": hard_sigmoid,
    "Clip": clip,
    "LeakyRelu": leaky_relu,
    "Gelu": gelu,
    "Add": add,
    "Sum": add,
    "LayerNormalization": layer_norm,
    "GroupNormalization": group_norm,
    "InstanceNormalization": group_norm,
    "LRN": local_response_norm,
    "ConvTranspose": transposed,
    "Resize": resize,
    "Slice": sliced,
    "Mul": multiply,
    "Concat": concat,
    "Pad": pad,
}
