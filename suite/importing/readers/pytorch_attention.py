"""Attention that a module computes itself: by `scaled_dot_product_attention`, or a softmax.

Queries, keys and values are parts of linear layers, each behind some changes of axes. Which row of
a weight each of their values has is found by doing the same changes to the numbers of the rows.
With a bias of the scores, it is the attention in windows of a Swin transformer: which pixels a
window has is found by moving their numbers. The values of the bias are not read here: the
comparison of the layers with the module shows whether they are those of its table.
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
    *("unbind", "chunk", "split", "getitem", "squeeze", "unsqueeze", "roll"),
)
ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")


@dataclass(frozen=True)
class Attention:
    """An attention from `source` to its last node; `inside` are the nodes before that one."""

    source: fx.Node
    inside: frozenset[fx.Node]
    layer: Layer
    weights: dict[str, torch.Tensor]


class Attentions:
    """Those of a traced module."""

    def __init__(self, traced: fx.GraphModule) -> None:
        self._modules, self._traced = dict(traced.named_modules()), traced
        self.found: dict[str, Attention] = {}  # by the name of the last node
        self.refused: dict[str, str] = {}  # the reasons, by the name of the product
        for node in traced.graph.nodes:
            inside = {node}
            try:
                if given := self._given(node, inside):
                    last, attention = self._of(node, given, inside)
                    self.found[last.name] = attention
            except Refused as error:
                self.refused[node.name] = str(error)

    @property
    def inside(self) -> set[str]:
        return {each.name for found in self.found.values() for each in found.inside}

    def _given(self, node: fx.Node, inside: set[fx.Node]) -> dict[str, Any]:
        """The arguments of an attention whose product with the values is `node`; empty: none."""
        if node.target is functional.scaled_dot_product_attention:
            return {**dict(zip(ARGUMENTS, node.args, strict=False)), **node.kwargs}
        if not _is(node, "matmul"):
            return {}
        shares: Any = node.args[0]
        inside.add(shares)
        if isinstance(self._of_node(shares), nn.Dropout) and not self._module(shares).p:
            shares = shares.args[0]
        if not (_is(shares, "softmax") or isinstance(self._of_node(shares), nn.Softmax)):
            return {}
        scores, biases, factor = shares.args[0], [], 1.0
        inside.add(shares)
        while not _is(scores, "matmul"):
            inside.add(scores)
            factor *= _factor(scores)
            if _is(scores, "add"):
                biases.append(scores.args[1])
            elif not _is(scores, "mul", "div", "view", "reshape"):
                return {}
            scores = scores.args[0]
        query, keys = scores.args[:2]
        inside |= {scores, keys}
        if _is(query, "mul", "div"):
            inside.add(query)
            factor *= _factor(query)
            query = query.args[0]
        if not _is(keys, "transpose") or {each % 4 for each in keys.args[1:]} != {2, 3}:
            return {}
        given = {"query": query, "key": keys.args[0], "value": node.args[1], "scale": factor}
        return {**given, "attn_mask": biases or None}

    def _of_node(self, node: Any) -> Any:
        """The module that a node calls, if any."""
        return self._module(node) if node.op == "call_module" else None

    def _of(
        self, node: fx.Node, given: dict[str, Any], inside: set[fx.Node]
    ) -> tuple[fx.Node, Attention]:
        _, heads, length, size = node.meta["shape"]
        scale = given.get("scale")
        if given.get("dropout_p") or given.get("enable_gqa"):
            raise Refused("attention has no dropout, and as many heads of keys as of queries")
        if scale is not None and not math.isclose(scale, size**-0.5):
            raise Refused(f"scale={scale}: attention divides by the root of a head's size")
        parts = [self._rows(given[name], inside) for name in ("query", "key", "value")]
        sources: set[Any] = {linear.args[0] for linear, _ in parts}
        linear, columns = self._columns(node, inside)
        if len(sources) != 1:
            raise Refused("queries, keys and values are of one sequence")
        source, last = sources.pop(), linear
        features = heads * size
        if source.meta["shape"][1:] != (length, features):
            raise Refused(f"{source.meta['shape'][1:]}: heads divide the features")
        weights = self._weights(parts, self._module(linear), columns)
        layer: Layer = {"features": features, "heads": heads}
        if (mask := given.get("attn_mask")) is None:
            layer |= {"kind": "self_attention", "causal": bool(given.get("is_causal", False))}
            layer["bias"] = "in_bias" in weights
        else:
            source, last, windows = self._windows(source, linear, inside)
            table = self._table(mask, (windows, heads), inside)
            layer |= {"kind": "window_attention", **windows}
            weights["table"] = table
            if "in_bias" not in weights:
                raise Refused("the products of an attention in windows have biases")
        if any(set(each.users) - inside - {last} for each in inside):
            raise Refused("the parts of an attention have no other use")
        return last, Attention(source, frozenset(inside), layer, weights)

    def _windows(
        self, before: fx.Node, linear: fx.Node, inside: set[fx.Node]
    ) -> tuple[fx.Node, fx.Node, Layer]:
        """The image, the image after the attention, and the size and shift of the windows."""
        source, there = before, list[fx.Node]()
        while self._moves(source) and (source is before or len(source.users) == 1):
            there.insert(0, source)
            source = source.args[0]
        last, back, moves = linear, [], [linear]
        while len(moves[-1].users) == 1 and self._moves(each := next(iter(moves[-1].users))):
            moves.append(each)
            if each.meta["shape"] == source.meta["shape"]:
                last, back = each, moves[1:]
        shape = source.meta["shape"]
        if len(shape) != 4 or last.meta["shape"] != shape:
            raise Refused("attention has no mask or bias of its scores, but in windows of an image")
        numbers = torch.arange(math.prod(shape)).reshape(shape)
        moved = self._moved(there, numbers)
        rows, columns = [
            (moved[0, :, 0] // shape[3]).div(shape[2], rounding_mode="floor"),
            (moved[0, :, 0] // shape[3]) % shape[2],
        ]
        window, shift = [len(rows.unique()), len(columns.unique())], [int(rows[0]), int(columns[0])]
        if shape[1] % window[0] or shape[2] % window[1]:
            raise Refused(f"windows of {window} do not divide an image of {shape[1:3]}")
        parts = numbers.roll([-each for each in shift], (1, 2)).reshape(
            *(shape[0], shape[1] // window[0], window[0]),
            *(shape[2] // window[1], window[1], shape[3]),
        )
        expected = parts.transpose(2, 3).reshape(-1, math.prod(window), shape[3])
        if not torch.equal(moved, expected) or not torch.equal(self._moved(back, moved), numbers):
            raise Refused("the windows of an attention are parts of an image, and return to it")
        inside |= {linear, *there, *back} - {last}
        return source, last, {"window": window, "shift": shift}

    def _table(self, mask: Any, sizes: Any, inside: set[fx.Node]) -> torch.Tensor:
        """The parameter with the biases of the scores, on which alone `mask` depends."""
        windows, heads = sizes
        shape = (math.prod(2 * each - 1 for each in windows["window"]), heads)
        found: set[fx.Node] = set()
        waiting = list(mask) if isinstance(mask, list) else [mask]
        tables: list[torch.Tensor] = []
        while waiting:
            node = waiting.pop()
            if node.op == "placeholder":
                raise Refused("the biases of the scores do not depend on the input")
            found.add(node)
            waiting += node.all_input_nodes
            if node.op == "get_attr":
                owner, _, name = str(node.target).rpartition(".")
                values = getattr(self._traced.get_submodule(owner), name)
                tables += [values] if isinstance(values, nn.Parameter) else []
        if len(tables) != 1 or tuple(tables[0].shape) != shape:
            raise Refused(f"the biases of the scores are of one table {shape}")
        inside |= found
        return tables[0]

    def _rows(self, node: Any, inside: set[fx.Node]) -> tuple[fx.Node, torch.Tensor]:
        """The linear layer of queries, keys or values, and its row for each value of a head."""
        path: list[fx.Node] = []
        batch, heads, length, size = node.meta["shape"]
        while not self._is_linear(node):
            if not self._moves(node):
                raise Refused("queries, keys and values are results of linear layers")
            path.insert(0, node)
            node = node.args[0]
        inside |= {node, *path}
        shape = node.meta["shape"]
        numbers = self._moved(path, torch.arange(math.prod(shape)).reshape(shape))
        rows = numbers[0, :, 0]
        members = torch.arange(batch * length).reshape(batch, 1, length, 1) * shape[-1]
        if tuple(numbers.shape) != (batch, heads, length, size) or not torch.equal(
            numbers, rows[:, None] + members
        ):
            raise Refused("the heads of an attention are parts of the features of a member")
        return node, rows.flatten()

    def _columns(self, node: fx.Node, inside: set[fx.Node]) -> tuple[fx.Node, torch.Tensor]:
        """The linear layer after the attention, and the value of the heads for each column."""
        batch, heads, length, size = node.meta["shape"]
        path: list[fx.Node] = []
        end = node
        while len(end.users) == 1:
            end = next(iter(end.users))
            if self._is_linear(end):
                break
            if not self._moves(end):
                raise Refused("a linear layer follows an attention")
            path.append(end)
        shape = (batch, heads, length, size)
        numbers = self._moved(path, torch.arange(math.prod(shape)).reshape(shape))
        whole = (batch, length, heads * size)
        members = torch.arange(batch)[:, None, None] * heads * length * size
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
        if not node.args or not node.all_input_nodes:
            return False
        if node.target is functional.pad:
            return not any(node.args[1])
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


def _is(node: Any, *names: str) -> bool:
    """Whether a node is a function or method with one of these names."""
    if not isinstance(node, fx.Node) or node.op not in ("call_function", "call_method"):
        return False
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    return name in names or (name == "truediv" and "div" in names)


def _factor(node: fx.Node) -> float:
    """The number by which a node multiplies; 1 where it does not."""
    number = node.args[1] if len(node.args) > 1 else None
    if not isinstance(number, (int, float)) or not _is(node, "mul", "div"):
        return 1.0
    return float(number) if _is(node, "mul") else 1 / float(number)
