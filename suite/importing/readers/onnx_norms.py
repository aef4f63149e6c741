"""Gives the batch norms of an ONNX model the statistics of inputs.

With changed weights, values would otherwise vanish or grow from norm to norm, and the logits would
no longer depend on the inputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from .onnx_running import batch_size_of, session_of

AXES_ARE_INPUTS = 18  # the opset from which the axes of ReduceMean are an input
EPSILON = 1e-5  # of ONNX, where a node has none


def calibrate(model: Any, shapes: dict[str, tuple[int, ...]], inputs: Any) -> None:
    """Set the mean and the variance of each batch norm; `shapes` are those of values."""
    norms = [node for node in model.graph.node if node.op_type == "BatchNormalization"]
    if not norms:
        return
    session, given = session_of(_with_statistics_of_batch(model, shapes))
    names = [_name(node, each) for node in norms for each in ("mean", "variance")]
    values = session.run(names, {given.name: inputs[: batch_size_of(given)]})
    for name, value in zip(names, values, strict=True):
        model.graph.initializer.append(numpy_helper.from_array(value.reshape(-1), name))
    for node in norms:
        node.input[3], node.input[4] = _name(node, "mean"), _name(node, "variance")
    _drop_unused(model)


def _drop_unused(model: Any) -> None:
    """Remove the initializers that no node takes: ONNX Runtime refuses them in old files."""
    used = {name for node in model.graph.node for name in node.input}
    unused = {each.name for each in model.graph.initializer} - used
    for parts in (model.graph.initializer, model.graph.input):
        kept = [each for each in parts if each.name not in unused]
        del parts[:]
        parts.extend(kept)


def _with_statistics_of_batch(model: Any, shapes: dict[str, tuple[int, ...]]) -> Any:
    """A copy whose batch norms take the statistics of the batch, which are outputs too."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    opset = max(each.version for each in model.opset_import if each.domain in ("", "ai.onnx"))
    constants = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    nodes: list[Any] = []
    for node in model.graph.node:
        if node.op_type != "BatchNormalization":
            nodes.append(node)
            continue
        rank = 1 + len(shapes[node.input[0]])
        added, initializers = _normalization(node, rank, opset, constants)
        nodes += added
        copy.graph.initializer.extend(initializers)
        names = (_name(node, each) for each in ("mean", "variance"))
        copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    del copy.graph.node[:]
    copy.graph.node.extend(nodes)
    _drop_unused(copy)
    return copy


def _normalization(
    node: Any, rank: int, opset: int, constants: dict[str, Any]
) -> tuple[list[Any], list[Any]]:
    """Nodes that normalize by the statistics of the batch, and their constants."""
    value, mean, variance = node.input[0], _name(node, "mean"), _name(node, "variance")
    epsilon = next((each.f for each in node.attribute if each.name == "epsilon"), EPSILON)
    axes = [axis for axis in range(rank) if axis != 1]
    shape = [1, -1, *[1] * (rank - 2)]
    initializers = [
        numpy_helper.from_array(np.float32(epsilon), _name(node, "epsilon")),
        numpy_helper.from_array(np.array(axes, np.int64), _name(node, "axes")),
        *(
            numpy_helper.from_array(constants[node.input[position]].reshape(shape), name)
            for position, name in ((1, _name(node, "scale")), (2, _name(node, "bias")))
        ),
    ]

    def averaged(of: str, result: str) -> Any:
        if opset >= AXES_ARE_INPUTS:
            return helper.make_node("ReduceMean", [of, _name(node, "axes")], [result])
        return helper.make_node("ReduceMean", [of], [result], axes=axes)

    def steps() -> Iterator[Any]:
        part = {name: _name(node, name) for name in ("centred", "square", "sum", "root", "unit")}
        yield averaged(value, mean)
        yield helper.make_node("Sub", [value, mean], [part["centred"]])
        yield helper.make_node("Mul", [part["centred"]] * 2, [part["square"]])
        yield averaged(part["square"], variance)
        yield helper.make_node("Add", [variance, _name(node, "epsilon")], [part["sum"]])
        yield helper.make_node("Sqrt", [part["sum"]], [part["root"]])
        yield helper.make_node("Div", [part["centred"], part["root"]], [part["unit"]])
        yield helper.make_node("Mul", [part["unit"], _name(node, "scale")], [_name(node, "scaled")])
        yield helper.make_node("Add", [_name(node, "scaled"), _name(node, "bias")], node.output[:1])

    return [*steps()], initializers


def _name(node: Any, part: str) -> str:
    """A name that no other value has."""
    return f"dlsuite:{node.output[0]}:{part}"
