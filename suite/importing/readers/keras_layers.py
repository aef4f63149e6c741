"""Layers of Keras, with channels last, as ours."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .common import Layer, Refused, pad, same_sides, sides, whole_pool

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Value:
    """A result: the name of its node, and what its form is where Keras's is another one.

    squeezed: (channels,) in Keras, (channels, 1, 1) here. flat: features whose order is (height,
    width, channels) in Keras, with `shape`. plus3 and clipped: parts of a hard sigmoid, of `name`.
    """

    name: str
    form: str = ""
    shape: Shape = ()


KINDS: dict[str, Layer] = {
    **{name: {"kind": name} for name in ("relu", "relu6", "tanh", "sigmoid", "silu")},
    **{name: {"kind": name} for name in ("hard_sigmoid", "hard_swish")},
    "gelu": {"kind": "gelu", "approximate": False},
    "hard_silu": {"kind": "hard_swish"},
    "swish": {"kind": "silu"},
    "leaky_relu": {"kind": "leaky_relu", "slope": 0.2},
}


def activation_of(layer: Any) -> str | None:
    """The name of a layer's activation; None where it has none."""
    return getattr(getattr(layer, "activation", None), "__name__", None)


def channels_first(shape: Shape) -> Shape:
    return (shape[-1], *shape[:-1]) if len(shape) == 3 else shape


def as_image(shape: Shape) -> Shape:
    """The shape of a signal (length, channels) as that of an image of height 1; others as is."""
    return (1, *shape) if len(shape) == 2 else shape


def _pair(value: Any, height: int) -> list[int]:
    """The numbers of height and width; of a signal with this height's."""
    numbers = [value] if isinstance(value, int) else [int(each) for each in value]
    return [height, *numbers] if len(numbers) == 1 else numbers


def _kernel(kernel: Any) -> Any:
    """The weight of a convolution; of a signal with a height of 1."""
    values = np.asarray(kernel)
    return values[None] if values.ndim == 3 else values


def _activated(graph: Any, layer: Any, name: str) -> Value:
    """The activation that a layer ends with."""
    kind = activation_of(layer)
    if kind in (None, "linear"):
        return Value(name)
    if kind not in KINDS:
        raise Refused(f"activation {kind}: no layer is it")
    return Value(graph.add(f"{layer.name}_{kind}", [name], dict(KINDS[str(kind)])))


def _window(layer: Any, kernel: Any, shape: Shape, dilation: Any = (1, 1)) -> Layer:
    """Kernel, stride and padding of a window on an image (height, width, channels)."""
    kernel, stride, dilation = (_pair(each, 1) for each in (kernel, layer.strides, dilation))
    extent = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    numbers = [0, 0, 0, 0]
    if layer.padding == "same":
        numbers = same_sides(shape[:2], extent, stride)
    fields = {"kernel": kernel, "stride": stride}
    return {**fields, **sides(*numbers)}


def _last(layer: Any) -> None:
    if getattr(layer, "data_format", "channels_last") != "channels_last":
        raise Refused("data_format='channels_first'")


def conv(graph: Any, node: Any, given: list[Value], before: Shape, after: Shape) -> Value:
    layer = node.operation
    _last(layer)
    value = given[0].name
    if layer.padding == "causal":
        (size,), (apart,) = layer.kernel_size, layer.dilation_rate
        if zeros := pad(0, 0, apart * (size - 1), 0):
            value = graph.add(f"{layer.name}_zeros", [value], zeros)
    made = {
        "kind": "conv2d",
        "in_channels": before[-1],
        "out_channels": after[-1],
        **_window(layer, layer.kernel_size, before, layer.dilation_rate),
        "bias": layer.use_bias,
        "groups": layer.groups,
        "dilation": _pair(layer.dilation_rate, 1),
    }
    name = graph.add(layer.name, [value], made)
    weight = _kernel(layer.kernel).transpose(3, 2, 0, 1)
    graph.keep(name, weight=weight, bias=layer.bias if layer.use_bias else None)
    return _activated(graph, layer, name)


def depthwise(graph: Any, node: Any, given: list[Value], before: Shape, after: Shape) -> Value:
    layer = node.operation
    name = _depthwise(graph, layer, layer.kernel, given[0].name, before, bias=layer.use_bias)
    if layer.use_bias:
        graph.keep(name, bias=layer.bias)
    return _activated(graph, layer, name)


def _depthwise(
    graph: Any, layer: Any, kernel: Any, value: str, before: Shape, *, bias: bool
) -> str:
    _last(layer)
    weight = _kernel(kernel).transpose(2, 3, 0, 1)  # (channels, multiplier, height, width)
    outputs = weight.shape[0] * weight.shape[1]
    made = {
        "kind": "conv2d",
        "in_channels": before[-1],
        "out_channels": outputs,
        **_window(layer, layer.kernel_size, before, layer.dilation_rate),
        "bias": bias,
        "groups": before[-1],
        "dilation": _pair(layer.dilation_rate, 1),
    }
    name = graph.add(layer.name, [value], made)
    graph.keep(name, weight=weight.reshape(outputs, 1, *weight.shape[2:]))
    return str(name)


def separable(graph: Any, node: Any, given: list[Value], before: Shape, after: Shape) -> Value:
    layer = node.operation
    first = _depthwise(graph, layer, layer.depthwise_kernel, given[0].name, before, bias=False)
    point = _kernel(layer.pointwise_kernel).transpose(3, 2, 0, 1)
    made = {
        "kind": "conv2d",
        "in_channels": point.shape[1],
        "out_channels": point.shape[0],
        "kernel": [1, 1],
        "bias": layer.use_bias,
    }
    name = graph.add(f"{layer.name}_point", [first], made)
    graph.keep(name, weight=point, bias=layer.bias if layer.use_bias else None)
    return _activated(graph, layer, name)


def dense(graph: Any, node: Any, given: list[Value], before: Shape, after: Shape) -> Value:
    layer, value = node.operation, graph.flat(given[0])
    weight = np.asarray(layer.kernel).T
    bias = layer.bias if layer.use_bias else None
    if len(before) == 3:  # at each position of an image
        made: Layer = {"kind": "conv2d", "in_channels": before[-1], "out_channels": after[-1]}
        made |= {"kernel": [1, 1], "bias": layer.use_bias}
        weight = weight[:, :, None, None]
    else:
        made = {"kind": "dense", "in_features": before[-1], "out_features": after[-1]}
        made["bias"] = layer.use_bias
    if value.form == "flat":
        weight = np.moveaxis(weight.reshape(-1, *value.shape), -1, 1).reshape(weight.shape)
    name = graph.add(layer.name, [value.name], made)
    graph.keep(name, weight=weight, bias=bias)
    return _activated(graph, layer, name)


def batch_norm(graph: Any, node: Any, given: list[Value], before: Shape, after: Shape) -> Value:
    layer = node.operation
    if len(before) not in (1, 3) or layer.axis not in (-1, len(before)):
        raise Refused("a batch norm takes images or vectors, and is over the channels")
    for role, has in (("scale", layer.scale), ("center", layer.center)):
        if not has:
            graph.notes.append(f"batch norms without {role} get one, which is trained here")
    channels = before[-1]
    numbers = {"epsilon": layer.epsilon, "momentum": round(1 - layer.momentum, 9)}
    made = {"kind": "batch_norm", "channels": channels, **numbers, "initial_scale": 1.0}
    made["images"] = len(before) == 3
    name = graph.add(layer.name, [given[0].name], made)
    graph.keep(
        name,
        weight=layer.gamma if layer.scale else np.ones(channels),
        bias=layer.beta if layer.center else np.zeros(channels),
        mean=layer.moving_mean,
        variance=layer.moving_variance,
    )
    return Value(name)


def layer_norm(graph: Any, node: Any, given: list[Value], before: Shape, after: Shape) -> Value:
    layer, value = node.operation, given[0]
    axes = [layer.axis] if isinstance(layer.axis, int) else list(layer.axis)
    if axes not in ([-1], [len(before)]) or not (layer.center and layer.scale):
        raise Refused("a layer norm is over the last axis, with a scale and a bias")
    if getattr(layer, "rms_scaling", False) or value.form == "flat":
        raise Refused("a layer norm takes images or sequences, and subtracts the mean")
    images = len(before) == 3 or value.form == "squeezed"
    made = {"kind": "layer_norm", "features": before[-1], "epsilon": layer.epsilon}
    name = graph.add(layer.name, [value.name], {**made, "images": images})
    graph.keep(name, weight=layer.gamma, bias=layer.beta)
    return Value(name, value.form)


def group_norm(graph: Any, node: Any, given: list[Value], before: Shape, after: Shape) -> Value:
    layer = node.operation
    if len(before) != 3 or layer.axis not in (-1, 3) or not (layer.center and layer.scale):
        raise Refused("a group norm takes images, and has a scale and a bias")
    made = {"kind": "group_norm", "channels": before[-1], "groups": layer.groups}
    name = graph.add(layer.name, [given[0].name], {**made, "epsilon": layer.epsilon})
    graph.keep(name, weight=layer.gamma, bias=layer.beta)
    return Value(name)


def transposed(graph: Any, node: Any, given: list[Value], before: Shape, after: Shape) -> Value:
    layer = node.operation
    _last(layer)
    stride, size = _pair(layer.strides, 1), _pair(layer.kernel_size, 1)
    if _pair(layer.dilation_rate, 1) != [1, 1] or layer.output_padding is not None:
        raise Refused("a transposed convolution has no dilation, and Keras's own size")
    parts = (before, stride, size)
    whole = [(size - 1) * stride + kernel for size, stride, kernel in zip(*parts, strict=False)]
    starts = [max(kernel - stride, 0) // 2 for _, stride, kernel in zip(*parts, strict=False)]
    starts = starts if layer.padding == "same" else [0, 0]
    ends = [size - start - end for size, start, end in zip(whole, starts, after, strict=False)]
    made = {
        "kind": "conv2d_transposed",
        "in_channels": before[-1],
        "out_channels": after[-1],
        "kernel": size,
        "stride": stride,
        "padding": [0, 0],
        "extra": [max(-end, 0) for end in ends],
        "bias": layer.use_bias,
    }
    name = graph.add(layer.name, [given[0].name], made)
    weight = _kernel(layer.kernel).transpose(3, 2, 0, 1)
    graph.keep(name, weight=weight, bias=layer.bias if layer.use_bias else None)
    cut = [*starts, *(max(end, 0) for end in ends)]
    if any(cut):
        sides = dict(zip(("top", "left", "bottom", "right"), cut, strict=True))
        name = graph.add(f"{layer.name}_cut", [name], {"kind": "cropping2d", **sides})
    return _activated(graph, layer, name)


def upsample(graph: Any, node: Any, given: list[Value], before: Shape, after: Shape) -> Value:
    layer = node.operation
    _last(layer)
    mode = getattr(layer, "interpolation", "nearest")  # of signals there is no other
    if mode not in ("nearest", "bilinear"):
        raise Refused(f"interpolation={mode!r}: nearest or bilinear")
    made = {"kind": "upsample", "factor": _pair(layer.size, 1), "mode": mode}
    return Value(graph.add(layer.name, [given[0].name], made))


def layer_scale(graph: Any, node: Any, given: list[Value], before: Shape, after: Shape) -> Value:
    layer = node.operation
    factors = np.asarray(layer.gamma)
    made = {"kind": "scale", "channels": before[-1], "initial_scale": float(factors.mean())}
    name = graph.add(layer.name, [given[0].name], made)
    graph.keep(name, weight=factors)
    return Value(name)


def pool(kind: str) -> Callable[..., Value]:
    def make(graph: Any, node: Any, given: list[Value], before: Shape, after: Shape) -> Value:
        layer = node.operation
        _last(layer)
        made = {"kind": kind, **_window(layer, layer.pool_size, before)}
        if kind == "avg_pool2d":
            made["count_padding"] = not any((*made["padding"], *made["extra_padding"]))
        return Value(graph.add(layer.name, [given[0].name], made))

    return make


def global_pool(kind: str) -> Callable[..., Value]:
    def make(graph: Any, node: Any, given: list[Value], before: Shape, after: Shape) -> Value:
        layer = node.operation
        _last(layer)
        made = {**whole_pool(channels_first(before)), "kind": kind}
        name = graph.add(layer.name, [given[0].name], made)
        return Value(name, "" if len(after) == 3 else "squeezed")

    return make


def flatten(graph: Any, node: Any, given: list[Value], before: Shape, after: Shape) -> Value:
    if len(before) == 1:
        return given[0]
    if len(before) != 3:
        raise Refused(f"{before}: images become features only")
    return Value(
        graph.add(node.operation.name, [given[0].name], {"kind": "flatten"}), "flat", before
    )


def reshape(graph: Any, node: Any, given: list[Value], before: Shape, after: Shape) -> Value:
    value = given[0]
    if before == after:
        return value
    if value.form == "squeezed" and after == (1, 1, *before):
        return Value(value.name)
    if len(before) == 3 and after == (math.prod(before),):
        return flatten(graph, node, given, before, after)
    raise Refused(f"{before} to {after}: images become features only")


def _sides(numbers: Any) -> Any:
    """The pixels above and below, left and right; a signal has only the latter."""
    return ((0, 0), numbers) if isinstance(numbers[0], int) else numbers


def cropping(graph: Any, node: Any, given: list[Value], before: Shape, after: Shape) -> Value:
    (top, bottom), (left, right) = _sides(node.operation.cropping)
    sides = {"top": top, "bottom": bottom, "left": left, "right": right}
    return Value(graph.add(node.operation.name, [given[0].name], {"kind": "cropping2d", **sides}))


def zero_padding(graph: Any, node: Any, given: list[Value], before: Shape, after: Shape) -> Value:
    (top, bottom), (left, right) = _sides(node.operation.padding)
    made = pad(top, bottom, left, right)
    return Value(graph.add(node.operation.name, [given[0].name], made)) if made else given[0]


def dropout(graph: Any, node: Any, given: list[Value], before: Shape, after: Shape) -> Value:
    layer, value = node.operation, given[0]
    shape = getattr(layer, "noise_shape", None)
    whole = shape is not None and all(each == 1 for each in shape[1:])
    if shape is not None and not whole and any(each == 1 for each in shape[1:]):
        raise Refused(f"noise_shape={shape}: single values or whole samples are left out")
    return _dropout(graph, layer.name, value, layer.rate, whole=whole)


def stochastic_depth(graph: Any, node: Any, given: list[Value], *shapes: Shape) -> Value:
    layer = node.operation
    return _dropout(graph, layer.name, given[0], layer.drop_path_rate, whole=True)


def _dropout(graph: Any, name: str, value: Value, rate: float, *, whole: bool) -> Value:
    if not rate:
        return value
    made = {"kind": "dropout", "rate": float(rate), "whole": whole}
    return Value(graph.add(name, [value.name], made), value.form, value.shape)


def activation(graph: Any, node: Any, given: list[Value], before: Shape, after: Shape) -> Value:
    layer, value = node.operation, given[0]
    kind = activation_of(layer)
    if kind == "linear":
        return value
    if kind not in KINDS:
        raise Refused(f"{kind}: no layer is this activation")
    return _simple(graph, layer.name, value, dict(KINDS[str(kind)]))


def _simple(graph: Any, name: str, value: Value, made: Layer) -> Value:
    return Value(graph.add(name, [value.name], made), value.form, value.shape)


def relu(graph: Any, node: Any, given: list[Value], before: Shape, after: Shape) -> Value:
    layer, value = node.operation, given[0]
    if layer.threshold:
        raise Refused(f"threshold={layer.threshold}: it is 0")
    if layer.max_value is None and layer.negative_slope:
        made: Layer = {"kind": "leaky_relu", "slope": float(layer.negative_slope)}
    elif layer.max_value in (None, 6) and not layer.negative_slope:
        if layer.max_value == 6 and value.form == "plus3":
            return Value(value.name, "clipped", value.shape)
        made = {"kind": "relu" if layer.max_value is None else "relu6"}
    else:
        raise Refused(f"max_value={layer.max_value}, negative_slope={layer.negative_slope}")
    return _simple(graph, layer.name, value, made)


def leaky_relu(graph: Any, node: Any, given: list[Value], before: Shape, after: Shape) -> Value:
    layer = node.operation
    made = {"kind": "leaky_relu", "slope": float(layer.negative_slope)}
    return _simple(graph, layer.name, given[0], made)


def join(kind: str) -> Callable[..., Value]:
    def make(graph: Any, node: Any, given: list[Value], before: Shape, after: Shape) -> Value:
        if len(given) == 1:
            return _of_constant(kind, graph, node, given[0])
        shapes = {tuple(each.shape[1:]) for each in node.input_tensors}
        if kind == "add" and len(shapes) > 1:
            raise Refused("a sum is that of tensors of one shape")
        if kind == "concat" and node.operation.axis not in (-1, len(before)):
            raise Refused(f"axis {node.operation.axis}: a concatenation is along the channels")
        if any(each.form == "flat" for each in given):
            raise Refused("flattened images are joined")
        names = [graph.flat(each).name for each in given]
        return Value(graph.add(node.operation.name, names, {"kind": kind}))

    return make


def _of_constant(kind: str, graph: Any, node: Any, value: Value) -> Value:
    """A sum or product with a number: a part of relu6(x + 3) / 6, the hard sigmoid."""
    numbers = [each for each in node.arguments.args if isinstance(each, (int, float))]
    number = float(numbers[0]) if numbers else math.nan
    if kind == "add" and number == 3:
        return Value(value.name, "plus3", value.shape)
    if kind == "multiply" and value.form == "clipped" and math.isclose(number, 1 / 6, rel_tol=1e-6):
        return Value(graph.add(node.operation.name, [value.name], {"kind": "hard_sigmoid"}))
    raise Refused(f"a number, {number:g}: no layer is that")


LAYERS: dict[str, Callable[..., Value]] = {
    "Conv2D": conv,
    "Conv1D": conv,
    "DepthwiseConv2D": depthwise,
    "DepthwiseConv1D": depthwise,
    "SeparableConv2D": separable,
    "SeparableConv1D": separable,
    "Dense": dense,
    "BatchNormalization": batch_norm,
    "LayerNormalization": layer_norm,
    "LayerScale": layer_scale,
    "GroupNormalization": group_norm,
    "Conv2DTranspose": transposed,
    "Conv1DTranspose": transposed,
    "UpSampling2D": upsample,
    "UpSampling1D": upsample,
    "MaxPooling2D": pool("max_pool2d"),
    "MaxPooling1D": pool("max_pool2d"),
    "AveragePooling2D": pool("avg_pool2d"),
    "AveragePooling1D": pool("avg_pool2d"),
    "GlobalAveragePooling2D": global_pool("avg_pool2d"),
    "GlobalAveragePooling1D": global_pool("avg_pool2d"),
    "GlobalMaxPooling2D": global_pool("max_pool2d"),
    "GlobalMaxPooling1D": global_pool("max_pool2d"),
    "Flatten": flatten,
    "Reshape": reshape,
    "ZeroPadding2D": zero_padding,
    "ZeroPadding1D": zero_padding,
    "Cropping2D": cropping,
    "Cropping1D": cropping,
    "Dropout": dropout,
    "StochasticDepth": stochastic_depth,
    "Activation": activation,
    "ReLU": relu,
    "LeakyReLU": leaky_relu,
    "Add": join("add"),
    "Multiply": join("multiply"),
    "Concatenate": join("concat"),
    "Identity": lambda graph, node, given, before, after: given[0],
}
