"""The nodes and constants of a model in the ONNX format."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper

from .protocol import Array, Weights

INPUT = ".inputs"  # no name of a layer
Layer = dict[str, Any]


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


def product(graph: Graph, layer: Layer, value: str, weight: str, bias: str) -> str:
    """A product on the last axis of a sequence, and its bias, if any."""
    name = f"{layer['name']}.{weight}.product"
    result = graph.node("MatMul", [value, graph.transposed(layer, weight)], name)
    if not layer["bias"]:
        return result
    return graph.node("Add", [result, graph.weight(layer, bias)], f"{layer['name']}.{bias}.sum")


def axes(graph: Graph, axis: int) -> str:
    return graph.shared(f"axis{axis}", np.array([axis]))
