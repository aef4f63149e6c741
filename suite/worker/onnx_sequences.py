"""Attention and recurrent layers of docs/reference/protocol.md as ONNX operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from .attention import EXCLUDED, kv_heads, part_sizes, rotation, window_mask, window_rows
from .onnx_graph import INPUT, Graph, Layer, axes, product
from .protocol import Array

# ONNX's order of the gates, as numbers of ours: input, output, forget, cell; update, reset, new.
GATES = {"lstm": [0, 3, 1, 2], "gru": [1, 0, 2]}


def self_attention(graph: Graph, layer: Layer, value: str) -> str:
    name, heads, kept = layer["name"], layer["heads"], kv_heads(layer)
    joined = product(graph, layer, value, "in_weight", "in_bias")
    parts = [f"{name}.{part}" for part in ("queries", "keys", "values")]
    sizes = graph.constant(f"{name}.sizes", np.array(part_sizes(layer)))
    graph.node_of("Split", [joined, sizes], parts, axis=2)
    if layer["rotary_theta"] is not None:
        parts[:2] = (_rotated(graph, layer, part) for part in parts[:2])
    options = {"q_num_heads": heads, "kv_num_heads": kept, "is_causal": int(layer["causal"])}
    if layer["padding_id"] is not None:
        parts.append(_excluded(graph, layer))
    mixed = graph.node("Attention", parts, f"{name}.mixed", **options)
    return product(graph, layer, mixed, "out_weight", "out_bias")


def _excluded(graph: Graph, layer: Layer) -> str:
    """What is added to the scores of an attention, (N, 1, length, length)."""
    name, length = layer["name"], layer["input_shape"][0]
    keys = _keys(graph, layer, causal=layer["causal"])
    others = graph.node("Sub", [_one(graph), keys], f"{name}.others")
    low = graph.shared("excluded", np.array(EXCLUDED, "float32"))
    excluded = graph.node("Mul", [others, low], f"{name}.excluded")
    heads = graph.node("Unsqueeze", [excluded, axes(graph, 1)], f"{name}.excluded.heads")
    whole = graph.constant(f"{name}.pairs_shape", np.array([graph.batch_size, 1, length, length]))
    return graph.node("Expand", [heads, whole], f"{name}.mask")


def _keys(graph: Graph, layer: Layer, *, causal: bool) -> str:
    """1 for the members that are not padding, (N, 1 or length, length).

    Where there are none, or in a causal attention none up to a member, 1 for all.
    """
    name = layer["name"]
    padding_id = graph.constant(f"{name}.padding_id", np.array(layer["padding_id"], "int32"))
    padding = graph.node("Equal", [INPUT, padding_id], f"{name}.is_padding")
    real = graph.node("Not", [padding], f"{name}.is_real")
    real = graph.node("Cast", [real], f"{name}.real", to=int(onnx.TensorProto.FLOAT))
    if causal:
        count = graph.node("CumSum", [real, graph.shared("one", np.array(1))], f"{name}.count")
        some = graph.node("Min", [count, _one(graph)], f"{name}.some")
    else:
        some = graph.node("ReduceMax", [real, axes(graph, 1)], f"{name}.some", keepdims=1)
    none = graph.node("Sub", [_one(graph), some], f"{name}.none")
    none = graph.node("Unsqueeze", [none, axes(graph, 2)], f"{name}.none.queries")
    real = graph.node("Unsqueeze", [real, axes(graph, 1)], f"{name}.real.keys")
    return graph.node("Max", [real, none], f"{name}.kept")


def _one(graph: Graph) -> str:
    return graph.shared("ones", np.array(1, "float32"))


def mean_of_real(graph: Graph, layer: Layer, value: str) -> str:
    """The mean of the members of a sequence that are not padding."""
    name = layer["name"]
    keys = _keys(graph, layer, causal=False)
    total = graph.node("MatMul", [keys, value], f"{name}.total")
    count = graph.node("ReduceSum", [keys, axes(graph, 2)], f"{name}.members", keepdims=1)
    mean = graph.node("Div", [total, count], f"{name}.mean")
    return graph.node("Squeeze", [mean, axes(graph, 1)], name)


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


def window_attention(graph: Graph, layer: Layer, value: str) -> str:
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
    joined = product(graph, {**layer, "bias": True}, windows, "in_weight", "in_bias")
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
    result = product(graph, {**layer, "bias": True}, mixed, "out_weight", "out_bias")
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
                    axes(graph, axis),
                ],
                f"{name}.from{start}",
            )
            for start, stop in ((cut, size), (0, cut))
        ]
        value = graph.node("Concat", parts, name, axis=axis)
    return value


def patch_merging(graph: Graph, layer: Layer, value: str) -> str:
    name, (channels, height, width) = layer["name"], layer["input_shape"]
    batch = graph.batch_size
    split = np.array([batch, channels, height // 2, 2, width // 2, 2])
    whole = np.array([batch, 4 * channels, height // 2, width // 2])
    pairs = graph.node("Reshape", [value, graph.constant(f"{name}.pairs", split)], f"{name}.split")
    turned = graph.node("Transpose", [pairs], f"{name}.turned", perm=[0, 5, 3, 1, 2, 4])
    return graph.node("Reshape", [turned, graph.constant(f"{name}.whole", whole)], name)


def lstm(graph: Graph, layer: Layer, value: str) -> str:
    """ONNX's LSTM has two biases; that of the recurrent product is zero."""
    bias = _gates(graph, layer, "bias")
    return _recurrent(graph, layer, value, "LSTM", np.concatenate([bias, np.zeros_like(bias)], 1))


def gru(graph: Graph, layer: Layer, value: str) -> str:
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
        return graph.node("Squeeze", [last, axes(graph, 0)], name)
    whole = graph.node("Squeeze", [states, axes(graph, 1)], f"{name}.whole")  # the direction
    return graph.node("Transpose", [whole], name, perm=[1, 0, 2])


def _gates(graph: Graph, layer: Layer, role: str) -> Array:
    """A parameter with ONNX's order of gates, (1, gates x hidden, ...): of one direction."""
    values, order = graph.values(layer, role), GATES[layer["kind"]]
    split = values.reshape(len(order), layer["hidden"], *values.shape[1:])
    return split[order].reshape(1, *values.shape)
