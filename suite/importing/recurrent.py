"""Recurrent layers of a file as those of dlsuite: one direction, all states or the last one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from suite.importing.graph import Node, NotSeriesParallel, users_of
from suite.importing.readers.common import part_of

OF_FILE = ("num_layers", "directions", "dropout")  # what dlsuite's layers do not have


def with_parts(nodes: Sequence[Node]) -> list[Node]:
    """The nodes; a recurrent layer of several layers or directions is a graph of single ones."""
    found: list[Node] = []
    for node in nodes:
        if node.layer is not None and "num_layers" in node.layer:
            found += _parts(node, node.layer)
        else:
            found.append(node)
    return found


def _parts(node: Node, layer: Mapping[str, Any]) -> Iterator[Node]:
    """The last one has the name of the node."""
    single = {name: each for name, each in layer.items() if name not in OF_FILE}
    layers, both = layer["num_layers"], layer["directions"] == 2
    before = node.inputs
    for number in range(layers):
        last = number == layers - 1
        end = node.name if last else f"{node.name}_{number}{'_both' if both else ''}"
        if both:
            forward, back = (
                node.name + part_of(number, direction, layers, both) for direction in (0, 1)
            )
            yield Node(name=forward, inputs=before, layer=single)
            yield Node(name=f"{back}_turn", inputs=before, layer={"kind": "reverse"})
            yield Node(name=back, inputs=(f"{back}_turn",), layer=single)
            yield Node(name=f"{back}_end", inputs=(back,), layer={"kind": "reverse"})
            join = {"kind": "concat", "sequence": True}
            yield Node(name=end, inputs=(forward, f"{back}_end"), layer=join)
        else:
            yield Node(name=end, inputs=before, layer=single)
        single = {**single, "in_features": layer["hidden"] * layer["directions"]}
        before = (end,)
        if layer["dropout"] and not last:
            before = (f"{end}_dropout",)
            drop = {"kind": "dropout", "rate": layer["dropout"]}
            yield Node(name=before[0], inputs=(end,), layer=drop)


def with_last_states(nodes: Sequence[Node]) -> list[Node]:
    """The nodes; the last state of a recurrent layer is the result of that layer.

    Raise NotSeriesParallel where its other states are used too, or it is of another layer.
    """
    by_name, users = {each.name: each for each in nodes}, users_of(nodes)
    found = dict(by_name)
    for node in nodes:
        if node.layer is None or node.layer["kind"] != "last_state":
            continue
        owner, passed = by_name[node.inputs[0]], [node]
        while owner.layer is None and owner.inputs:
            passed.append(owner)
            owner = by_name[owner.inputs[0]]
        alone = all(len(users[each.inputs[0]]) == 1 for each in passed)
        changed = list(_of_last_state(owner, by_name)) if alone else []
        if not changed:
            raise NotSeriesParallel(
                f"{node.name}: the last member of a sequence is taken of a recurrent layer"
                " whose other states are not used"
            )
        found |= {each.name: each for each in changed}
        found[node.name] = replace(node, layer=None)
    return [*found.values()]


def _of_last_state(owner: Node, by_name: Mapping[str, Node]) -> Iterator[Node]:
    """The nodes of a recurrent layer, changed so that its result is the last state; none: no such.

    In the direction back, the last member of the sequence is the first one that is computed.
    """
    layer = owner.layer
    if layer is None or "sequence" not in layer:
        return
    if layer["kind"] != "concat":
        yield replace(owner, layer={**layer, "sequence": False})
        return
    forward, end = (by_name[each] for each in owner.inputs[:2])
    of_both = end.layer == {"kind": "reverse"} and "hidden" in (forward.layer or {})
    if of_both and forward.layer is not None:
        yield replace(forward, layer={**forward.layer, "sequence": False})
        yield replace(end, layer={"kind": "first_token"})
        yield replace(owner, layer={**layer, "sequence": False})
