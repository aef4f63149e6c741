"""Series of ONNX operators that are one layer: GELU as exporters write it before opset 20."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import helper, numpy_helper


def fused(graph: Any) -> list[Any]:
    """The nodes, with x (1 + erf(x / sqrt(2))) / 2 as Gelu, in whatever order its factors are."""
    nodes = [*graph.node]
    constants = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    for node in nodes:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    makers = {name: node for node in nodes for name in node.output}
    users: dict[str, list[Any]] = {}
    for node in nodes:
        for name in node.input:
            users.setdefault(name, []).append(node)
    for erf in [node for node in nodes if node.op_type == "Erf"]:
        found = _gelu(erf, constants, makers, users)
        if found is None:
            continue
        source, parts, end = found
        gelu = helper.make_node("Gelu", [source], [end.output[0]], name=f"{erf.name}_gelu")
        nodes[nodes.index(end)] = gelu
        nodes = [node for node in nodes if node not in parts]
    return nodes


def _gelu(
    erf: Any, constants: dict[str, Any], makers: dict[str, Any], users: dict[str, list[Any]]
) -> tuple[str, list[Any], Any] | None:
    """The input, all nodes, and the last node; None where the Erf is of something else."""

    def number(node: Any) -> float | None:
        values = [constants[each] for each in node.input if each in constants]
        return float(values[0]) if len(values) == 1 and np.size(values[0]) == 1 else None

    def follower(node: Any, kind: str) -> Any:
        after = users.get(node.output[0], [])
        return after[0] if len(after) == 1 and after[0].op_type == kind else None

    def variable(node: Any) -> str:
        return str(next(each for each in node.input if each not in constants))

    scaled = makers.get(erf.input[0])
    if scaled is None or scaled.op_type not in ("Div", "Mul") or number(scaled) is None:
        return None
    factor = 1 / number(scaled) if scaled.op_type == "Div" else number(scaled)  # type: ignore[operator]
    source, plus = variable(scaled), follower(erf, "Add")
    if factor is None or not math.isclose(factor, math.sqrt(0.5), rel_tol=1e-5) or plus is None:
        return None
    product = follower(plus, "Mul")
    if number(plus) != 1 or product is None:
        return None
    other = next((each for each in product.input if each != plus.output[0]), None)
    parts = [scaled, erf, plus, product]
    if other == source:  # x (1 + erf) times 1/2
        end = follower(product, "Mul")
        return (source, [*parts, end], end) if end is not None and number(end) == 0.5 else None
    if other in constants and float(constants[other]) == 0.5:  # (1 + erf) / 2 times x
        end = follower(product, "Mul")
        return (source, [*parts, end], end) if end is not None and source in end.input else None
    half = makers.get(str(other))  # x / 2 times (1 + erf)
    if half is not None and half.op_type == "Mul" and number(half) == 0.5 and source in half.input:
        return source, [*parts, half], product
    return None
