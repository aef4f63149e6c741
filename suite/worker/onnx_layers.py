"""The layers of docs/reference/protocol.md as ONNX operators, with channels first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import helper

from .attention import kv_heads, part_sizes, rotation, window_mask, window_rows
from .layouts import kept, paddings, side_paddings
from .protocol import Array, Weights

Layer = dict[str, Any]
# ONNX's order of the gates, as numbers of ours: input, output, forget, cell; update, reset, new.
GATES = {"lstm": [0, 3, 1, 2], "gru": [1, 0, 2]}


class Graph:
    """The nodes of a model in order, and the constants that they use.

    Values, constants and nodes are named after the layers; methods return its name.
    """

    def __init__(self, batch_size: int, weights: Weights) -> None:
        self.batch_size = batch_size
        self.nodes: list[onnx.NodeProto] = []
        self.constants: Weights = {}
        self._weights = weights

    def values(self, layer: Layer, role: str) -> Array:
        """A parameter or running statistic in its canonical form."""
        return self._weights[f"{layer['name']}.{role}"]

    def weight(self, layer: Layer, role: str) -> str:
        """The same as a constant."""
        return self.constant(f"{layer['name']}.{role}", self.values(layer, role))

    def transposed(self, layer: Layer, role: str) -> str:
        """The weight (out, in) of a product as the constant (in, out)."""
        return self.constant(f"{layer['name']}.{role}.transposed", self.values(layer, role).T)

    def constant(self, name: str, values: Array) -> str:
        """A constant; where one has this name, it is used again."""
        self.constants.setdefault(name, values)
        return name

    def shared(self, name: str, values: Array) -> str:
        """A constant of several layers; no layer's name begins with a dot."""
        return self.constant(f".{name}", values)

    def node(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """A node with one result."""
        return self.node_of(operator, inputs, [output], **attributes)[0]

    def node_of(
        self, operator: str, inputs: list[str], outputs: list[str], **attributes: Any
    ) -> list[str]:
        """A node with several results; one with an empty name is not computed."""
        node = helper.make_node(operator, inputs, outputs, name=outputs[-1], **attributes)
        self.nodes.append(node)
        return outputs


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
        return _product(graph, layer, value, "weight", "bias")
    return graph.node("MatMul", [value, graph.transposed(layer, "weight")], layer["name"])


def _product(graph: Graph, layer: Layer, value: str, weight: str, bias: str) -> str:
    """A product on the last axis of a sequence, and its bias, if any."""
    name = f"{layer['name']}.{weight}.product"
    product = graph.node("MatMul", [value, graph.transposed(layer, weight)], name)
    if not layer["bias"]:
        return product
    return graph.node("Add", [product, graph.weight(layer, bias)], f"{layer['name']}.{bias}.sum")


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
    return graph.node("Slice", [value, start, stop, _axes(graph, 1)], name)


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
    return graph.node("Squeeze", [value, _axes(graph, 1)], layer["name"])


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
    return graph.node("ReduceMean", [value, _axes(graph, 1)], layer["name"], keepdims=0)


def _reverse(graph: Graph, layer: Layer, value: str) -> str:
    last, before_first, back = (
        graph.shared(name, np.array([number]))
        for name, number in (("last", -1), ("before_first", -(2**31)), ("back", -1))
    )
    return graph.node("Slice", [value, last, before_first, _axes(graph, 1), back], layer["name"])


def _embedding(graph: Graph, layer: Layer, value: str) -> str:
    return graph.node("Gather", [graph.weight(layer, "weight"), value], layer["name"], axis=0)


def _tied_head(graph: Graph, layer: Layer, value: str) -> str:
    weight = graph.transposed({"name": layer["embedding"]}, "weight")
    if not layer["bias"]:
        return graph.node("MatMul", [value, weight], layer["name"])
    product = graph.node("MatMul", [value, weight], f"{layer['name']}.product")
    return graph.node("Add", [product, graph.weight(layer, "bias")], layer["name"])


def _self_attention(graph: Graph, layer: Layer, value: str) -> str:
    name, heads, kept = layer["name"], layer["heads"], kv_heads(layer)
    joined = _product(graph, layer, value, "in_weight", "in_bias")
    parts = [f"{name}.{part}" for part in ("queries", "keys", "values")]
    sizes = graph.constant(f"{name}.sizes", np.array(part_sizes(layer)))
    graph.node_of("Split", [joined, sizes], parts, axis=2)
    if layer["rotary_theta"] is not None:
        parts[:2] = (_rotated(graph, layer, part) for part in parts[:2])
    options = {"q_num_heads": heads, "kv_num_heads": kept, "is_causal": int(layer["causal"])}
    mixed = graph.node("Attention", parts, f"{name}.mixed", **options)
    return _product(graph, layer, mixed, "out_weight", "out_bias")


def _rotated(graph: Graph, layer: Layer, value: str) -> str:
    """Queries or keys (N, length, heads x features of a head), rotated by their position."""
    name, length, tables = layer["name"], layer["input_shape"][0], rotation(layer)
    assert tables is not None
    pairs = tables[0].shape[1]
    axis = 4 if layer["interleaved"] else 3  # of the two values of a pair
    split_shape = [graph.batch_size, length, -1, pairs]
    split_shape.insert(axis, 2)
    split = graph.node(
        "Reshape",
        [value, graph.constant(f"{name}.pairs", np.array(split_shape))],
        f"{value}.pairs",
    )
    first, second = graph.node_of(
        "Split", [split], [f"{value}.first", f"{value}.second"], axis=axis, num_outputs=2
    )
    table_shape = [1, length, 1, pairs]
    table_shape.insert(axis, 1)
    cosines, sines = (
        graph.constant(f"{name}.{role}", table.reshape(table_shape).astype("float32"))
        for role, table in zip(("cosines", "sines"), tables)
    )

    def times(part: str, table: str) -> str:
        return graph.node("Mul", [part, table], f"{part}.times.{table}")

    turned = [
        graph.node("Sub", [times(first, cosines), times(second, sines)], f"{first}.turned"),
        graph.node("Add", [times(second, cosines), times(first, sines)], f"{second}.turned"),
    ]
    joined = graph.node("Concat", turned, f"{value}.joined", axis=axis)
    whole = np.array([graph.batch_size, length, -1])
    return graph.node(
        "Reshape", [joined, graph.constant(f"{name}.whole", whole)], f"{value}.rotated"
    )


def _window_attention(graph: Graph, layer: Layer, value: str) -> str:
    name, (features, height, width), (rows, columns) = (
        layer["name"],
        layer["input_shape"],
        layer["window"],
    )
    pixels, heads, mask = rows * columns, layer["heads"], window_mask(layer)
    batch, of_head, count = graph.batch_size, features // heads, height // rows * (width // columns)

    def shaped(value: str, shape: list[int], role: str) -> str:
        return graph.node(
            "Reshape",
            [value, graph.constant(f"{name}.{role}.shape", np.array(shape))],
            f"{name}.{role}",
        )

    last = graph.node("Transpose", [value], f"{name}.last", perm=[0, 2, 3, 1])
    moved = _rolled(graph, layer, last, 1)
    split = shaped(
        moved, [batch, height // rows, rows, width // columns, columns, features], "split"
    )
    windows = graph.node("Transpose", [split], f"{name}.turned", perm=[0, 1, 3, 2, 4, 5])
    windows = shaped(windows, [batch * count, pixels, features], "windows")
    joined = _product(graph, {**layer, "bias": True}, windows, "in_weight", "in_bias")
    joined = shaped(joined, [batch * count, pixels, 3 * heads, of_head], "heads")
    joined = graph.node("Transpose", [joined], f"{name}.by_head", perm=[0, 2, 1, 3])
    parts = [f"{name}.{part}" for part in ("queries", "keys", "values")]
    graph.node_of("Split", [joined], parts, axis=1, num_outputs=3)
    table = graph.values(layer, "table")[window_rows(layer)].reshape(pixels, pixels, heads)
    bias = table.transpose(2, 0, 1)[None]
    if mask is not None:
        bias = np.tile(bias + mask, (batch, 1, 1, 1))
    given = [*parts, graph.constant(f"{name}.bias", bias.astype("float32"))]
    mixed = graph.node("Attention", given, f"{name}.mixed")
    mixed = graph.node("Transpose", [mixed], f"{name}.by_pixel", perm=[0, 2, 1, 3])
    mixed = shaped(mixed, [batch * count, pixels, features], "joined")
    result = _product(graph, {**layer, "bias": True}, mixed, "out_weight", "out_bias")
    result = shaped(
        result, [batch, height // rows, width // columns, rows, columns, features], "grid"
    )
    result = graph.node("Transpose", [result], f"{name}.back", perm=[0, 1, 3, 2, 4, 5])
    result = shaped(result, [batch, height, width, features], "image")
    return graph.node("Transpose", [_rolled(graph, layer, result, -1)], name, perm=[0, 3, 1, 2])


def _rolled(graph: Graph, layer: Layer, value: str, direction: int) -> str:
    """Images (N, height, width, features), moved by the shift; ONNX has no roll."""
    for axis, (move, size) in enumerate(zip(layer["shift"], layer["input_shape"][1:]), 1):
        if not move:
            continue
        name, cut = f"{value}.moved{axis}", move if direction > 0 else size - move
        parts = [
            graph.node(
                "Slice",
                [
                    value,
                    graph.constant(f"{name}.start{start}", np.array([start])),
                    graph.constant(f"{name}.stop{stop}", np.array([stop])),
                    _axes(graph, axis),
                ],
                f"{name}.from{start}",
            )
            for start, stop in ((cut, size), (0, cut))
        ]
        value = graph.node("Concat", parts, name, axis=axis)
    return value


def _patch_merging(graph: Graph, layer: Layer, value: str) -> str:
    name, (channels, height, width) = layer["name"], layer["input_shape"]
    batch = graph.batch_size
    split = np.array([batch, channels, height // 2, 2, width // 2, 2])
    whole = np.array([batch, 4 * channels, height // 2, width // 2])
    pairs = graph.node("Reshape", [value, graph.constant(f"{name}.pairs", split)], f"{name}.split")
    turned = graph.node("Transpose", [pairs], f"{name}.turned", perm=[0, 5, 3, 1, 2, 4])
    return graph.node("Reshape", [turned, graph.constant(f"{name}.whole", whole)], name)


def _lstm(graph: Graph, layer: Layer, value: str) -> str:
    """ONNX's LSTM has two biases; that of the recurrent product is zero."""
    bias = _gates(graph, layer, "bias")
    return _recurrent(graph, layer, value, "LSTM", np.concatenate([bias, np.zeros_like(bias)], 1))


def _gru(graph: Graph, layer: Layer, value: str) -> str:
    """With the reset gate after the recurrent product."""
    biases = np.concatenate([_gates(graph, layer, role) for role in ("bias", "hidden_bias")], 1)
    return _recurrent(graph, layer, value, "GRU", biases, linear_before_reset=1)


def _recurrent(
    graph: Graph, layer: Layer, value: str, operator: str, biases: Array, **options: Any
) -> str:
    """An operator that has the length before the batch, and another order of the gates."""
    name = layer["name"]
    inputs = [
        graph.node("Transpose", [value], f"{name}.members", perm=[1, 0, 2]),
        *(
            graph.constant(f"{name}.{role}", _gates(graph, layer, role))
            for role in ("input_weight", "hidden_weight")
        ),
        graph.constant(f"{name}.bias", biases),
    ]
    states, last = (f"{name}.states", "") if layer["sequence"] else ("", f"{name}.last")
    options["hidden_size"] = layer["hidden"]
    graph.node_of(operator, inputs, [states, last] if last else [states], **options)
    if last:
        return graph.node("Squeeze", [last, _axes(graph, 0)], name)
    whole = graph.node("Squeeze", [states, _axes(graph, 1)], f"{name}.whole")  # the direction
    return graph.node("Transpose", [whole], name, perm=[1, 0, 2])


def _gates(graph: Graph, layer: Layer, role: str) -> Array:
    """A parameter with ONNX's order of gates, (1, gates x hidden, ...): of one direction."""
    values, order = graph.values(layer, role), GATES[layer["kind"]]
    split = values.reshape(len(order), layer["hidden"], *values.shape[1:])
    return split[order].reshape(1, *values.shape)


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


def _concat(graph: Graph, layer: Layer, value: str) -> str:
    results = [series(graph, branch, value) for branch in layer["branches"]]
    return graph.node("Concat", results, layer["name"], axis=2 if layer["sequence"] else 1)


def _axes(graph: Graph, axis: int) -> str:
    return graph.shared(f"axis{axis}", np.array([axis]))


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
    "hard_sigmoid": _simple("HardSigmoid", alpha=1 / 6, beta=0.5),
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
    "self_attention": _self_attention,
    "window_attention": _window_attention,
    "patch_merging": _patch_merging,
    "lstm": _lstm,
    "gru": _gru,
    "mean_token": _mean_token,
    "reverse": _reverse,
    "group_norm": _group_norm,
    "rms_norm": _rms_norm,
    "conv2d_transposed": _transposed_conv2d,
    "upsample": _upsample,
    "add": _join("Add"),
    "multiply": _join("Mul"),
    "concat": _concat,
}
