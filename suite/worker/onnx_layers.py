"""The layers of docs/reference/protocol.md as ONNX operators, with channels first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .layouts import kept, paddings, side_paddings
from .onnx_graph import Graph, Layer, axes, product
from .onnx_sequences import (
    gru,
    lstm,
    mean_of_real,
    patch_merging,
    self_attention,
    window_attention,
)


def series(graph: Graph, layers: list[Layer], value: str) -> str:
    """Add the layers one after the other; return the name of the last one's result.

    Raise NotImplementedError for a kind of layer that is unknown.
    """
    for layer in layers:
        lower = LAYERS.get(layer["kind"])
        if lower is None:
            raise NotImplementedError(f"ONNX module has no layer {layer['kind']!r}")
        value = lower(graph, layer, value)
    return value


def _conv2d(graph: Graph, layer: Layer, value: str) -> str:
    inputs = [value, graph.weight(layer, "weight")]
    if layer["bias"]:
        inputs.append(graph.weight(layer, "bias"))
    groups = {"group": layer["groups"], "dilations": list(layer["dilation"])}
    return graph.node("Conv", inputs, layer["name"], **groups, **_window(layer))


def _dense(graph: Graph, layer: Layer, value: str) -> str:
    if len(layer["input_shape"]) == 1:
        inputs = [value, graph.weight(layer, "weight")]
        if layer["bias"]:
            inputs.append(graph.weight(layer, "bias"))
        return graph.node("Gemm", inputs, layer["name"], transB=1)
    if layer["bias"]:
        return product(graph, layer, value, "weight", "bias")
    return graph.node("MatMul", [value, graph.transposed(layer, "weight")], layer["name"])


def _max_pool2d(graph: Graph, layer: Layer, value: str) -> str:
    return graph.node("MaxPool", [value], layer["name"], **_window(layer))


def _avg_pool2d(graph: Graph, layer: Layer, value: str) -> str:
    window = _window(layer)
    counts = int(layer["count_padding"])
    return graph.node("AveragePool", [value], layer["name"], count_include_pad=counts, **window)


def _window(layer: Layer) -> dict[str, list[int]]:
    """The attributes of a window; paddings are those of all starts, then those of all ends."""
    starts, ends = zip(*paddings(layer))
    return {
        "kernel_shape": list(layer["kernel"]),
        "strides": list(layer["stride"]),
        "pads": [*starts, *ends],
    }


def _global_avg_pool2d(graph: Graph, layer: Layer, value: str) -> str:
    means = graph.node("GlobalAveragePool", [value], f"{layer['name']}.means")
    return graph.node("Flatten", [means], layer["name"], axis=1)


def _batch_norm(graph: Graph, layer: Layer, value: str) -> str:
    roles = ("weight", "bias", "mean", "variance")
    inputs = [value, *(graph.weight(layer, role) for role in roles)]
    return graph.node("BatchNormalization", inputs, layer["name"], epsilon=layer["epsilon"])


def _layer_norm(graph: Graph, layer: Layer, value: str) -> str:
    name, options = layer["name"], {"axis": -1, "epsilon": layer["epsilon"]}
    parameters = [graph.weight(layer, "weight"), graph.weight(layer, "bias")]
    if not layer["images"]:
        return graph.node("LayerNormalization", [value, *parameters], name, **options)
    last = graph.node("Transpose", [value], f"{name}.last", perm=[0, 2, 3, 1])
    normed = graph.node("LayerNormalization", [last, *parameters], f"{name}.normed", **options)
    return graph.node("Transpose", [normed], name, perm=[0, 3, 1, 2])


def _group_norm(graph: Graph, layer: Layer, value: str) -> str:
    options = {"num_groups": layer["groups"], "epsilon": layer["epsilon"]}
    parameters = [graph.weight(layer, "weight"), graph.weight(layer, "bias")]
    return graph.node("GroupNormalization", [value, *parameters], layer["name"], **options)


def _local_response_norm(graph: Graph, layer: Layer, value: str) -> str:
    numbers = {name: layer[name] for name in ("size", "alpha", "beta")}
    return graph.node("LRN", [value], layer["name"], bias=layer["k"], **numbers)


def _rms_norm(graph: Graph, layer: Layer, value: str) -> str:
    options = {"axis": -1, "epsilon": layer["epsilon"]}
    weight = graph.weight(layer, "weight")
    return graph.node("RMSNormalization", [value, weight], layer["name"], **options)


def _transposed_conv2d(graph: Graph, layer: Layer, value: str) -> str:
    inputs = [value, graph.weight(layer, "weight")]
    if layer["bias"]:
        inputs.append(graph.weight(layer, "bias"))
    return graph.node(
        "ConvTranspose",
        inputs,
        layer["name"],
        kernel_shape=list(layer["kernel"]),
        strides=list(layer["stride"]),
        pads=[*layer["padding"], *layer["padding"]],
        output_padding=list(layer["extra"]),
    )


def _upsample(graph: Graph, layer: Layer, value: str) -> str:
    factors = np.array([1, 1, *layer["factor"]], "float32")
    inputs = [value, "", graph.constant(f"{layer['name']}.factors", factors)]
    if layer["mode"] == "bilinear":
        return graph.node("Resize", inputs, layer["name"], mode="linear")
    places = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return graph.node("Resize", inputs, layer["name"], mode="nearest", **places)


def _scale(graph: Graph, layer: Layer, value: str) -> str:
    factors = graph.values(layer, "weight")[:, None, None]
    return graph.node(
        "Mul", [value, graph.constant(f"{layer['name']}.weight", factors)], layer["name"]
    )


def _channel_slice(graph: Graph, layer: Layer, value: str) -> str:
    name = layer["name"]
    start = graph.constant(f"{name}.start", np.array([layer["start"]]))
    stop = graph.constant(f"{name}.stop", np.array([layer["stop"]]))
    return graph.node("Slice", [value, start, stop, axes(graph, 1)], name)


def _channel_shuffle(graph: Graph, layer: Layer, value: str) -> str:
    name, (channels, height, width) = layer["name"], layer["input_shape"]
    parts = np.array([graph.batch_size, layer["groups"], -1, height, width])
    whole = np.array([graph.batch_size, channels, height, width])
    split = graph.node("Reshape", [value, graph.constant(f"{name}.parts", parts)], f"{name}.split")
    turned = graph.node("Transpose", [split], f"{name}.turned", perm=[0, 2, 1, 3, 4])
    return graph.node("Reshape", [turned, graph.constant(f"{name}.whole", whole)], name)


def _zero_padding2d(graph: Graph, layer: Layer, value: str) -> str:
    starts, ends = zip(*side_paddings(layer))
    pads = np.array([0, 0, *starts, 0, 0, *ends])
    return graph.node("Pad", [value, graph.constant(f"{layer['name']}.pads", pads)], layer["name"])


def _cropping2d(graph: Graph, layer: Layer, value: str) -> str:
    name, parts = layer["name"], kept(layer)
    starts = graph.constant(f"{name}.starts", np.array([each.start for each in parts]))
    stops = graph.constant(f"{name}.stops", np.array([each.stop for each in parts]))
    axes = graph.constant(f"{name}.axes", np.array([2, 3]))
    return graph.node("Slice", [value, starts, stops, axes], name)


def _gelu(graph: Graph, layer: Layer, value: str) -> str:
    form = "tanh" if layer["approximate"] else "none"
    return graph.node("Gelu", [value], layer["name"], approximate=form)


def _dropout(graph: Graph, layer: Layer, value: str) -> str:
    """Without its input `training_mode`, the operator returns its input."""
    rate = graph.constant(f"{layer['name']}.rate", np.array(layer["rate"], "float32"))
    return graph.node("Dropout", [value, rate], layer["name"])


def _rows(graph: Graph, layer: Layer, value: str) -> str:
    return graph.node("Squeeze", [value, axes(graph, 1)], layer["name"])


def _tokens(graph: Graph, layer: Layer, value: str) -> str:
    channels, height, width = layer["input_shape"]
    name = layer["name"]
    shape = np.array([graph.batch_size, channels, height * width])
    flat = graph.node("Reshape", [value, graph.constant(f"{name}.shape", shape)], f"{name}.flat")
    return graph.node("Transpose", [flat], name, perm=[0, 2, 1])


def _class_token(graph: Graph, layer: Layer, value: str) -> str:
    # The batch size is fixed, so the vector of each sample is a constant.
    vector = graph.values(layer, "weight")
    repeated = np.broadcast_to(vector, (graph.batch_size, 1, vector.size))
    token = graph.constant(f"{layer['name']}.weight", repeated)
    return graph.node("Concat", [token, value], layer["name"], axis=1)


def _position_embedding(graph: Graph, layer: Layer, value: str) -> str:
    return graph.node("Add", [value, graph.weight(layer, "weight")], layer["name"])


def _first_token(graph: Graph, layer: Layer, value: str) -> str:
    first = graph.shared("first", np.array(0))
    return graph.node("Gather", [value, first], layer["name"], axis=1)


def _mean_token(graph: Graph, layer: Layer, value: str) -> str:
    if layer["padding_id"] is not None:
        return mean_of_real(graph, layer, value)
    return graph.node("ReduceMean", [value, axes(graph, 1)], layer["name"], keepdims=0)


def _reverse(graph: Graph, layer: Layer, value: str) -> str:
    last, before_first, back = (
        graph.shared(name, np.array([number]))
        for name, number in (("last", -1), ("before_first", -(2**31)), ("back", -1))
    )
    return graph.node("Slice", [value, last, before_first, axes(graph, 1), back], layer["name"])


def _embedding(graph: Graph, layer: Layer, value: str) -> str:
    return graph.node("Gather", [graph.weight(layer, "weight"), value], layer["name"], axis=0)


def _tied_head(graph: Graph, layer: Layer, value: str) -> str:
    weight = graph.transposed({"name": layer["embedding"]}, "weight")
    if not layer["bias"]:
        return graph.node("MatMul", [value, weight], layer["name"])
    product = graph.node("MatMul", [value, weight], f"{layer['name']}.product")
    return graph.node("Add", [product, graph.weight(layer, "bias")], layer["name"])


def _join(operator: str) -> Callable[[Graph, Layer, str], str]:
    """The lowering of a join by an operator of two values."""

    def lower(graph: Graph, layer: Layer, value: str) -> str:
        first, *others = (series(graph, branch, value) for branch in layer["branches"])
        for number, other in enumerate(others, 1):
            last = number == len(others)
            name = layer["name"] if last else f"{layer['name']}.part{number}"
            first = graph.node(operator, [first, other], name)
        return first

    return lower


def _relu6(graph: Graph, layer: Layer, value: str) -> str:
    limits = [graph.shared(f"limit{each}", np.array(each, "float32")) for each in (0, 6)]
    return graph.node("Clip", [value, *limits], layer["name"])


def _silu(graph: Graph, layer: Layer, value: str) -> str:
    share = graph.node("Sigmoid", [value], f"{layer['name']}.share")
    return graph.node("Mul", [value, share], layer["name"])


def _leaky_relu(graph: Graph, layer: Layer, value: str) -> str:
    return graph.node("LeakyRelu", [value], layer["name"], alpha=layer["slope"])


def _hard_sigmoid(graph: Graph, layer: Layer, value: str) -> str:
    options = {"alpha": layer["slope"], "beta": 0.5}
    return graph.node("HardSigmoid", [value], layer["name"], **options)


def _concat(graph: Graph, layer: Layer, value: str) -> str:
    results = [series(graph, branch, value) for branch in layer["branches"]]
    return graph.node("Concat", results, layer["name"], axis=2 if layer["sequence"] else 1)


def _simple(operator: str, **attributes: Any) -> Callable[[Graph, Layer, str], str]:
    """The lowering of a layer that is one operator without constants."""
    return lambda graph, layer, value: graph.node(operator, [value], layer["name"], **attributes)


LAYERS: dict[str, Callable[[Graph, Layer, str], str]] = {
    "conv2d": _conv2d,
    "dense": _dense,
    "max_pool2d": _max_pool2d,
    "avg_pool2d": _avg_pool2d,
    "global_avg_pool2d": _global_avg_pool2d,
    "batch_norm": _batch_norm,
    "layer_norm": _layer_norm,
    "relu": _simple("Relu"),
    "tanh": _simple("Tanh"),
    "scale": _scale,
    "channel_slice": _channel_slice,
    "zero_padding2d": _zero_padding2d,
    "cropping2d": _cropping2d,
    "channel_shuffle": _channel_shuffle,
    "gelu": _gelu,
    "relu6": _relu6,
    "leaky_relu": _leaky_relu,
    "sigmoid": _simple("Sigmoid"),
    "silu": _silu,
    "hard_sigmoid": _hard_sigmoid,
    "hard_swish": _simple("HardSwish"),
    "dropout": _dropout,
    "flatten": _simple("Flatten", axis=1),
    "rows": _rows,
    "tokens": _tokens,
    "class_token": _class_token,
    "position_embedding": _position_embedding,
    "first_token": _first_token,
    "embedding": _embedding,
    "tied_head": _tied_head,
    "self_attention": self_attention,
    "window_attention": window_attention,
    "patch_merging": patch_merging,
    "lstm": lstm,
    "gru": gru,
    "mean_token": _mean_token,
    "reverse": _reverse,
    "group_norm": _group_norm,
    "local_response_norm": _local_response_norm,
    "rms_norm": _rms_norm,
    "conv2d_transposed": _transposed_conv2d,
    "upsample": _upsample,
    "add": _join("Add"),
    "multiply": _join("Mul"),
    "concat": _concat,
}
