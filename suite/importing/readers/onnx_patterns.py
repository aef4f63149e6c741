"""Series of ONNX operators that are one layer: GELU before opset 20, hard swish before 14."""

from __future__ import annotations

import math
from typing import Any

from onnx import helper, numpy_helper


def fused(graph: Any) -> list[Any]:
    """The nodes, with these series as one node, in whatever order their factors are.

    x (1 + erf(x / sqrt(2))) / 2 is Gelu, x clip(x + 3, 0, 6) / 6 is HardSwish.
    """
    nodes = _Nodes(graph)
    found = [("Gelu", _gelu(nodes, each)) for each in nodes.of("Erf")]
    found += [("HardSwish", _hard_swish(nodes, each)) for each in nodes.of("Clip")]
    result = nodes.all
    for operator, series in found:
        if series is None:
            continue
        source, parts, end = series
        name = f"{end.name or end.output[0]}_{operator.lower()}"
        whole = helper.make_node(operator, [source], [end.output[0]], name=name)
        result = [whole if each is end else each for each in result]
        result = [each for each in result if each not in parts]
    return result


Series = tuple[str, list[Any], Any]  # the input, all nodes, and the last node


class _Nodes:
    """The nodes of a graph, and what is known of them."""

    def __init__(self, graph: Any) -> None:
        self.all = [*graph.node]
        self.constants = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
        self.makers = {name: node for node in self.all for name in node.output}
        self._users: dict[str, list[Any]] = {}
        for node in self.all:
            for name in node.input:
                self._users.setdefault(name, []).append(node)

    def of(self, operator: str) -> list[Any]:
        return [node for node in self.all if node.op_type == operator]

    def number(self, node: Any) -> float | None:
        """The only constant among the inputs, where it is one number."""
        names = [each for each in node.input if each in self.constants]
        return self.scalar(names[0]) if len(names) == 1 else None

    def scalar(self, name: str) -> float | None:
        """A constant with one value, of whatever shape."""
        values = self.constants.get(name)
        return float(values.item()) if values is not None and values.size == 1 else None

    def variable(self, node: Any) -> str:
        """The first input that is no constant."""
        return str(next(each for each in node.input if each not in self.constants))

    def follower(self, node: Any, *operators: str) -> Any:
        """The only node that uses the result, where it is one of these operators."""
        after = self._users.get(node.output[0], [])
        return after[0] if len(after) == 1 and after[0].op_type in operators else None

    def factor(self, node: Any) -> float | None:
        """The number with which a product or quotient multiplies."""
        value = self.number(node)
        if value is None or node.op_type not in ("Mul", "Div"):
            return None
        if node.op_type == "Mul":
            return value
        return 1 / value if value and node.input[1] in self.constants else None


def _hard_swish(nodes: _Nodes, clip: Any) -> Series | None:
    """None where the Clip is of something else."""
    limits = [nodes.scalar(each) for each in clip.input[1:]]
    named = {each.name: each.f for each in clip.attribute}  # before opset 11
    plus = nodes.makers.get(clip.input[0])
    if [*limits, *(named[each] for each in ("min", "max") if each in named)] != [0, 6]:
        return None
    if plus is None or plus.op_type != "Add" or nodes.number(plus) != 3:
        return None
    if nodes.follower(plus, "Clip") is None:
        return None
    source, first = nodes.variable(plus), nodes.follower(clip, "Mul", "Div")
    second = first and nodes.follower(first, "Mul", "Div")
    if second is None:
        return None
    # The product with x and that with 1/6, in this order or in the other.
    product, sixth = (first, second) if source in first.input else (second, first)
    factor = nodes.factor(sixth)
    if product.op_type != "Mul" or source not in product.input or factor is None:
        return None
    if not math.isclose(factor, 1 / 6, rel_tol=1e-6):
        return None
    return source, [plus, clip, first, second], second


def _gelu(nodes: _Nodes, erf: Any) -> Series | None:
    """None where the Erf is of something else."""
    scaled = nodes.makers.get(erf.input[0])
    if scaled is None or scaled.op_type not in ("Div", "Mul"):
        return None
    factor = nodes.factor(scaled)
    source, plus = nodes.variable(scaled), nodes.follower(erf, "Add")
    if factor is None or not math.isclose(factor, math.sqrt(0.5), rel_tol=1e-5) or plus is None:
        return None
    product = nodes.follower(plus, "Mul")
    if nodes.number(plus) != 1 or product is None:
        return None
    other = next((each for each in product.input if each != plus.output[0]), None)
    parts = [scaled, erf, plus, product]
    if other == source:  # x (1 + erf) times 1/2
        end = nodes.follower(product, "Mul")
        return (source, [*parts, end], end) if end and nodes.number(end) == 0.5 else None
    if nodes.scalar(str(other)) == 0.5:  # (1 + erf) / 2 times x
        end = nodes.follower(product, "Mul")
        return (source, [*parts, end], end) if end and source in end.input else None
    half = nodes.makers.get(str(other))  # x / 2 times (1 + erf)
    if half is not None and nodes.factor(half) == 0.5 and source in half.input:
        return source, [*parts, half], product
    return None
