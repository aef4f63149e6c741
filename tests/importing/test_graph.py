"""Graphs as nested series and branches."""

from collections.abc import Iterator
from typing import Any

import pytest

from suite.importing.graph import Graph, Node, NotSeriesParallel, with_global_pools
from suite.models.branches import Branches
from suite.models.layers import AvgPool2d, Flatten, Layer, Relu


def nodes(*lines: str) -> list[Node]:
    """Nodes as `name kind input...`; kind `-` passes its input on."""
    found = []
    for line in lines:
        name, kind, *inputs = line.split()
        layer: dict[str, Any] | None = None if kind == "-" else {"kind": kind}
        found.append(Node(name=name, inputs=tuple(inputs), layer=layer))
    return found


def shown(layers: tuple[Layer, ...]) -> str:
    return " ".join(each_of(layers))


def each_of(layers: tuple[Layer, ...]) -> Iterator[str]:
    for layer in layers:
        if isinstance(layer, Branches):
            inner = " | ".join(shown(branch) for branch in layer.branches)
            yield f"{layer.kind}({inner})"
        else:
            yield layer.name


def of(*lines: str) -> str:
    return shown(Graph(nodes(*lines)).layers())


def test_a_series_keeps_its_order() -> None:
    assert of("x - ", "a relu x", "i - a", "b tanh i") == "a b"


def test_a_residual_block_starts_where_its_branches_part() -> None:
    assert of("x -", "a relu x", "b tanh a", "c relu b", "s add c a", "d relu s") == (
        "a add(b c | ) d"
    )


def test_branches_nest() -> None:
    lines = ("x -", "a relu x", "b relu a", "c relu a", "s add b c", "d relu x", "t concat s d")
    assert of(*lines) == "concat(a add(b | c) | d)"


def test_a_gate_multiplies() -> None:
    assert of("x -", "a relu x", "g tanh a", "m multiply g a") == "a multiply(g | )"


@pytest.mark.parametrize("order", ["g a", "a g"])
def test_a_value_times_its_own_sigmoid_is_silu(order: str) -> None:
    layers = Graph(nodes("x -", "a relu x", "g sigmoid a", f"m multiply {order}")).layers()
    assert [each.kind for each in layers] == ["relu", "silu"]


def test_concatenations_of_all_former_results_are_nested() -> None:
    """DenseNet."""
    lines = (
        "x -",
        "c0 concat x",
        "a relu c0",
        "c1 concat x a",
        "b relu c1",
        "c2 concat x a b",
        "d relu c2",
    )
    assert of(*lines) == "concat( | a) concat( | b) d"


@pytest.mark.parametrize(
    ("kernel", "size", "kinds"),
    [(7, 7, ["relu", "global_avg_pool2d"]), (2, 3, ["relu", "avg_pool2d", "flatten"])],
)
def test_only_a_mean_over_the_whole_image_is_a_global_pool(
    kernel: int, size: int, kinds: list[str]
) -> None:
    pool = AvgPool2d(name="pool", kernel=(kernel, kernel), stride=(kernel, kernel))
    layers = (Relu(name="relu"), pool, Flatten(name="flatten"))
    assert [each.kind for each in with_global_pools(layers, (4, size, size))] == kinds


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (("x -", "a relu x", "b relu x"), "a: its result is not used"),
        (
            ("x -", "a relu x", "b relu a", "c relu a", "d relu x", "s add b d", "t add s c"),
            "share|from outside",
        ),
        (("x -", "a relu x", "s add a a"), "adds a value to itself|share"),
    ],
)
def test_another_graph_is_refused_with_its_node(lines: tuple[str, ...], reason: str) -> None:
    with pytest.raises(NotSeriesParallel, match=reason):
        of(*lines)
