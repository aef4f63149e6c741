"""A graph of operations as nested series of layers.

Our models are series of layers, some of which have parallel branches. A graph is one of them where
every branch starts in one node and ends in the join of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from suite.models import from_json
from suite.models.branches import Add, Branches, Concat, Multiply, series_shapes
from suite.models.layers import (
    AvgPool2d,
    Flatten,
    GlobalAvgPool2d,
    HardSigmoid,
    HardSwish,
    Layer,
    Shape,
    Sigmoid,
    Silu,
)

POSITIVE = ("relu", "relu6")  # the kinds of layers whose results are never negative
JOINS: dict[str, type[Branches]] = {"add": Add, "multiply": Multiply, "concat": Concat}


class NotSeriesParallel(Exception):
    """A graph that is not nested series and branches; the text names the node."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """An operation: its inputs by name, and the layer that it is.

    `layer` has a kind and its fields; None: the node passes its input on. A join has a kind only.
    """

    name: str
    inputs: tuple[str, ...]
    layer: Mapping[str, Any] | None = None

    @property
    def joins(self) -> bool:
        return self.layer is not None and self.layer["kind"] in JOINS


@dataclass(frozen=True)
class Graph:
    """Nodes in an order in which each one comes after its inputs; the first one is the input."""

    nodes: Sequence[Node] = field(repr=False)

    def layers(self) -> tuple[Layer, ...]:
        """The series from the input to the last node; NotSeriesParallel where there is none."""
        first, last = self.nodes[0].name, self.nodes[-1].name
        series = tuple(self._series(last, first))
        unused = set(self._by_name) - set(self._used(last, first)) - {first}
        if unused:
            raise NotSeriesParallel(f"{min(unused)}: its result is not used")
        return series

    @cached_property
    def _by_name(self) -> dict[str, Node]:
        return {node.name: node for node in _with_nested_concats(self.nodes)}

    @cached_property
    def _dominators(self) -> dict[str, list[str]]:
        """For each node the nodes that all its paths from the input pass, the nearest last."""
        found: dict[str, list[str]] = {}
        for name, node in self._by_name.items():
            before = [found[each] for each in node.inputs]
            common = (
                [each for each in before[0] if all(each in other for other in before)]
                if before
                else []
            )
            found[name] = [*common, name]
        return found

    def _series(self, end: str, start: str) -> Iterator[Layer]:
        """The layers after `start` up to and with `end`."""
        found: list[Layer] = []
        while end != start:
            node = self._by_name[end]
            if not node.inputs:
                raise NotSeriesParallel(f"{start}: a later operation does not pass it")
            if node.joins:
                end = self._fork(node)
                found.append(self._join(node, end))
            else:
                if node.layer is not None:
                    found.append(from_json.layer_of({**node.layer, "name": node.name}))
                end = node.inputs[0]
        yield from reversed(found)

    def _fork(self, node: Node) -> str:
        """The node in which the branches of a join start: the nearest that all of them pass."""
        return self._dominators[node.name][-2]

    def _join(self, node: Node, fork: str) -> Layer:
        assert node.layer is not None
        parts = [set(self._used(each, fork)) for each in node.inputs]
        for number, part in enumerate(parts):
            for other in parts[:number]:
                if shared := part & other:
                    raise NotSeriesParallel(
                        f"{node.name}: two of its branches share {min(shared)}, but not all of them"
                    )
        inside = set().union(*parts)
        for name in inside:
            if users := self._users[name] - inside - {node.name}:
                raise NotSeriesParallel(f"{name}: {min(users)} uses it from outside of its branch")
        branches = tuple(tuple(self._series(each, fork)) for each in node.inputs)
        if sum(not branch for branch in branches) > 1 and node.layer["kind"] == "add":
            raise NotSeriesParallel(f"{node.name}: adds a value to itself")
        if node.layer["kind"] == "multiply" and sorted(map(len, branches)) == [0, 1]:
            gate = next(branch[0] for branch in branches if branch)
            if isinstance(gate, Sigmoid):
                return Silu(name=node.name)  # as ONNX writes it
            if gate == HardSigmoid(name=gate.name):
                return HardSwish(name=node.name)
        options = {name: each for name, each in node.layer.items() if name != "kind"}
        return JOINS[node.layer["kind"]](name=node.name, branches=branches, **options)

    @cached_property
    def _users(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {name: set() for name in self._by_name}
        for name, node in self._by_name.items():
            for each in node.inputs:
                found[each].add(name)
        return found

    def _used(self, end: str, start: str) -> Iterator[str]:
        """The nodes on all ways from `start`, which is not among them, to `end`."""
        seen, waiting = set(), [end]
        while waiting:
            name = waiting.pop()
            if name != start and name not in seen:
                seen.add(name)
                yield name
                waiting += self._by_name[name].inputs


def _with_nested_concats(nodes: Sequence[Node]) -> list[Node]:
    """The nodes; a concatenation that begins as another one takes that one's result.

    DenseNet concatenates all former results before each block: (a), (a, b), (a, b, c).
    """
    known: dict[tuple[str, ...], str] = {}
    found = []
    for node in nodes:
        if node.layer is not None and node.layer["kind"] == "concat":
            whole = node.inputs
            for length in range(len(whole) - 1, 0, -1):
                if first := known.get(whole[:length]):
                    node = replace(node, inputs=(first, *whole[length:]))
                    break
            known[whole] = node.name
            if len(node.inputs) == 1:
                node = replace(node, layer=None)
        found.append(node)
    return found


def users_of(nodes: Sequence[Node]) -> dict[str, list[Node]]:
    """The nodes that take the result of each one."""
    users: dict[str, list[Node]] = {each.name: [] for each in nodes}
    for node in nodes:
        for name in set(node.inputs):
            users[name].append(node)
    return users


def with_paddings(nodes: Sequence[Node]) -> list[Node]:
    """The nodes; a padding with zeros is a part of the convolutions or pools after it.

    Where one of these cannot take it, it is a layer of its own. Before a max pool, zeros are as
    good as no value where none is negative.
    """
    by_name = {each.name: each for each in nodes}
    merged = {
        name
        for name, after in users_of(nodes).items()
        if _is_pad(by_name[name])
        and after
        and all(_takes(each, by_name[name], by_name) for each in after)
    }
    found = []
    for node in nodes:
        layer = node.layer
        if node.name in merged:
            layer = None
        elif layer is not None and _is_pad(node):
            named = dict(zip(("top", "bottom", "left", "right"), layer["sides"], strict=True))
            layer = {"kind": "zero_padding2d", **named}
        elif layer is not None and node.inputs and node.inputs[0] in merged:
            pad = by_name[node.inputs[0]].layer
            assert pad is not None
            layer = {**layer, **_padded(layer, pad["sides"])}
        found.append(replace(node, layer=layer))
    return found


def _is_pad(node: Node) -> bool:
    return node.layer is not None and node.layer["kind"] == "pad"


def _takes(node: Node, pad: Node, by_name: Mapping[str, Node]) -> bool:
    """Whether a padding with zeros can be that of the operation after it."""
    if node.layer is None or pad.layer is None:
        return False
    kind, before = node.layer["kind"], by_name[pad.inputs[0]].layer
    positive = before is not None and before["kind"] in POSITIVE
    fits = {
        "conv2d": True,
        "avg_pool2d": node.layer.get("count_padding", True),
        "max_pool2d": positive,
    }.get(kind, False)
    return fits and min(_padded(node.layer, pad.layer["sides"])["extra_padding"]) >= 0


def _padded(layer: Mapping[str, Any], sides: Sequence[int]) -> dict[str, list[int]]:
    """The padding of a layer with that before it: top, bottom, left, right."""
    rows, columns = layer.get("padding", (0, 0))
    below, right = layer.get("extra_padding", (0, 0))
    return {
        "padding": [rows + sides[0], columns + sides[2]],
        "extra_padding": [below + sides[1] - sides[0], right + sides[3] - sides[2]],
    }


def with_global_pools(layers: Sequence[Layer], shape: Shape) -> tuple[Layer, ...]:
    """The series with one layer for each mean over a whole image and the flatten after it."""
    found: list[Layer] = []
    for layer in layers:
        before = found[-1] if found else None
        if isinstance(layer, Flatten) and isinstance(before, AvgPool2d):
            size = series_shapes(tuple(found[:-1]), shape)[-1][1:]
            if (before.kernel, before.padding, before.extra_padding) == (size, (0, 0), (0, 0)):
                found[-1] = GlobalAvgPool2d(name=before.name)
                continue
        found.append(layer)
    return tuple(found)
