"""Attention that a module computes itself, by `scaled_dot_product_attention`.

Queries, keys and values are parts of linear layers, each behind some changes of axes. Which row of
a weight each of their values has is found by doing the same changes to the numbers of the rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional

from .common import Layer, Refused

AXES = (  # methods and functions that only move values
    *("reshape", "view", "permute", "transpose", "flatten", "unflatten", "contiguous"),
    *("unbind", "chunk", "split", "getitem", "squeeze", "unsqueeze"),
)
ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
BATCH = 2


@dataclass(frozen=True)
class Attention:
    """An attention that ends in a linear layer; `inside` are the nodes before that one."""

    source: fx.Node
    inside: frozenset[fx.Node]
    layer: Layer
    weights: dict[str, torch.Tensor]


class Attentions:
    """Those of a traced module."""

    def __init__(self, traced: fx.GraphModule, shapes: dict[str, Any]) -> None:
        self._modules, self._shapes = dict(traced.named_modules()), shapes
        self.found: dict[str, Attention] = {}  # by the name of the last node
        self.refused: dict[str, str] = {}  # the reasons, by the name of the product
        for node in traced.graph.nodes:
            if node.target is functional.scaled_dot_product_attention:
                try:
                    last, attention = self._of(node)
                    self.found[last.name] = attention
                except Refused as error:
                    self.refused[node.name] = str(error)

    @property
    def inside(self) -> set[str]:
        return {each.name for found in self.found.values() for each in found.inside}

    def _of(self, node: fx.Node) -> tuple[fx.Node, Attention]:
        given = {**dict(zip(ARGUMENTS, node.args, strict=False)), **node.kwargs}
        causal = given.get("is_causal", False)
        heads, length, size = self._shapes[node.name]
        scale = given.get("scale")
        if given.get("attn_mask") is not None:
            raise Refused("attention has no mask or bias of its scores")
        if given.get("dropout_p") or given.get("enable_gqa"):
            raise Refused("attention has no dropout, and as many heads of keys as of queries")
        if scale is not None and not math.isclose(scale, size**-0.5):
            raise Refused(f"scale={scale}: attention divides by the root of a head's size")
        inside = {node}
        parts = [self._rows(given[name], inside) for name in ("query", "key", "value")]
        sources = {linear.args[0] for linear, _ in parts}
        last, columns = self._columns(node, inside)
        if len(sources) != 1 or any(set(each.users) - inside - {last} for each in inside):
            raise Refused("queries, keys and values are of one sequence, and of no other use")
        source: Any = sources.pop()
        features = heads * size
        if tuple(self._shapes[source.name]) != (length, features):
            raise Refused(f"{self._shapes[source.name]}: heads divide the features")
        weights = self._weights(parts, self._module(last), columns)
        layer = {
            "kind": "self_attention",
            "features": features,
            "heads": heads,
            "causal": bool(causal),
            "bias": "in_bias" in weights,
        }
        return last, Attention(source, frozenset(inside), layer, weights)

    def _rows(self, node: Any, inside: set[fx.Node]) -> tuple[fx.Node, torch.Tensor]:
        """The linear layer of queries, keys or values, and its row for each value of a head."""
        path: list[fx.Node] = []
        heads, length, size = self._shapes[node.name]
        while not self._is_linear(node):
            if not self._moves(node):
                raise Refused("queries, keys and values are results of linear layers")
            path.insert(0, node)
            node = node.args[0]
        inside |= {node, *path}
        shape = (BATCH, *self._shapes[node.name])
        numbers = self._moved(path, torch.arange(math.prod(shape)).reshape(shape))
        rows = numbers[0, :, 0]
        members = torch.arange(BATCH * length).reshape(BATCH, 1, length, 1) * shape[-1]
        if tuple(numbers.shape) != (BATCH, heads, length, size) or not torch.equal(
            numbers, rows[:, None] + members
        ):
            raise Refused("the heads of an attention are parts of the features of a member")
        return node, rows.flatten()

    def _columns(self, node: fx.Node, inside: set[fx.Node]) -> tuple[fx.Node, torch.Tensor]:
        """The linear layer after the attention, and the value of the heads for each column."""
        heads, length, size = self._shapes[node.name]
        path: list[fx.Node] = []
        end = node
        while len(end.users) == 1:
            end = next(iter(end.users))
            if self._is_linear(end):
                break
            if not self._moves(end):
                raise Refused("a linear layer follows an attention")
            path.append(end)
        shape = (BATCH, heads, length, size)
        numbers = self._moved(path, torch.arange(math.prod(shape)).reshape(shape))
        whole = (BATCH, length, heads * size)
        members = torch.arange(BATCH)[:, None, None] * heads * length * size
        members = members + torch.arange(length)[:, None] * size
        if tuple(numbers.shape) != whole or not torch.equal(numbers, numbers[0, 0] + members):
            raise Refused("the heads of an attention become the features of a member")
        inside |= set(path)
        first = numbers[0, 0]
        return end, first // (length * size) * size + first % size

    def _weights(self, parts: Any, last: nn.Linear, columns: torch.Tensor) -> dict[str, Any]:
        modules = [(self._module(linear), rows) for linear, rows in parts]
        has_bias = {module.bias is not None for module in (*(each for each, _ in modules), last)}
        if len(has_bias) != 1:
            raise Refused("either all products of an attention have a bias, or none")
        out = torch.empty_like(last.weight)
        out[:, columns] = last.weight
        found = {"in_weight": torch.cat([each.weight[rows] for each, rows in modules])}
        found["out_weight"] = out
        if has_bias == {True}:
            found["in_bias"] = torch.cat([each.bias[rows] for each, rows in modules])
            found["out_bias"] = last.bias
        return found

    def _module(self, node: fx.Node) -> Any:
        return self._modules[str(node.target)]

    def _is_linear(self, node: fx.Node) -> bool:
        return node.op == "call_module" and type(self._module(node)) is nn.Linear

    def _moves(self, node: fx.Node) -> bool:
        """Whether a node only moves values, or does nothing to them."""
        if node.op == "call_module":
            module = self._module(node)
            return isinstance(module, nn.Identity) or (
                isinstance(module, nn.Dropout) and not module.p
            )
        name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
        others = [each for each in node.all_input_nodes if each is not node.args[0]]
        return node.op in ("call_method", "call_function") and name in AXES and not others

    def _moved(self, path: list[fx.Node], numbers: Any) -> Any:
        for node in path:
            if node.op == "call_method":
                numbers = getattr(numbers, str(node.target))(*node.args[1:], **node.kwargs)
            elif node.op == "call_function":
                function: Any = node.target
                numbers = function(numbers, *node.args[1:], **node.kwargs)
        return numbers
