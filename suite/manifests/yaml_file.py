"""Reads YAML files strictly, so that a value is what its reader takes it for.

Scalars follow YAML 1.2: only `true` and `false` are truth values, and `1e-3` is a number. A key
that is given twice, a second document and a tag are errors. A merge key (`<<`) adds the keys that a
mapping does not have itself.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import yaml

MOST_NODES = 100_000  # with all aliases expanded
PREFIX = "tag:yaml.org,2002:"
MAP, SEQUENCE, MERGE_TAG = PREFIX + "map", PREFIX + "seq", PREFIX + "merge"
MERGE = "<<"
Node = yaml.Node | None
Pairs = dict[str, tuple[yaml.Node, yaml.Node]]


class Refused(Exception):
    """The text is not strict YAML; `line` counts from 1."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


@dataclass(frozen=True, kw_only=True)
class Document:
    """The values of a file, with their places."""

    text: str
    node: Node  # None: the file is empty
    values: Any  # mappings are dict, sequences are tuples

    def line(self, location: tuple[int | str, ...]) -> int:
        """The line of the innermost key or item of `location` that the file has."""
        return self._find(location)[0]

    def written(self, location: tuple[int | str, ...]) -> str | None:
        """The scalar at `location` as it is written; None where there is none."""
        _, node = self._find(location)
        if not isinstance(node, yaml.ScalarNode):
            return None
        return self.text[node.start_mark.index : node.end_mark.index]

    def _find(self, location: tuple[int | str, ...]) -> tuple[int, Node]:
        node, line = self.node, _line(self.node) if self.node else 1
        for part in location:
            if isinstance(node, yaml.MappingNode):
                pairs = _pairs(node)
                if part not in pairs:
                    continue
                key, node = pairs[str(part)]
                line = _line(key)
            elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
                node = node.value[part]
                line = _line(node)
        return line, node


class _Scalars(yaml.SafeLoader):
    """Recognizes the plain scalars of YAML 1.2's core schema, and the merge key."""

    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012 (not those of YAML 1.1)


for _tag, _form, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ("~", "n", "N", "")),
    ("int", r"[-+]?(0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", "-+."),
    ("merge", r"<<", "<"),
):
    _Scalars.add_implicit_resolver(PREFIX + _tag, re.compile(rf"(?:{_form})\Z"), list(_first))


def read(content: bytes) -> Document:
    """The only document in `content`. Raise Refused where it is not strict YAML in UTF-8."""
    try:
        text = content.decode("utf-8-sig")
        node = yaml.compose(text, Loader=_Scalars)
        if node is None:
            return Document(text=text, node=None, values=None)
        _Checked(node)
        return Document(text=text, node=node, values=_Values().of(node))
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise Refused(line, f"not UTF-8: byte {content[error.start]:#04x}") from None
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise Refused(line, f"not YAML: character {error.character:#06x}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = " ".join(filter(None, (error.context, error.problem)))
        raise Refused(mark.line + 1 if mark else 1, f"not YAML: {reason}") from None
    except RecursionError:
        raise Refused(1, "not YAML: too many levels") from None


class _Checked:
    """Checks each node once, and gives each mapping the keys that it merges.

    Raise Refused where a key is given twice, a node contains itself, or a tag is unknown.
    """

    def __init__(self, root: yaml.Node) -> None:
        self._done: set[int] = set()
        self._open: set[int] = set()  # the nodes that contain the present one
        self._check(root)

    def _check(self, node: yaml.Node) -> None:
        if id(node) in self._open:
            raise Refused(_line(node), "an alias repeats itself")
        if id(node) in self._done:
            return
        self._open.add(id(node))
        if isinstance(node, yaml.MappingNode):
            self._mapping(node)
        elif isinstance(node, yaml.SequenceNode):
            for each in node.value:
                self._check(each)
        if not isinstance(node, yaml.ScalarNode) and node.tag not in (MAP, SEQUENCE):
            raise Refused(_line(node), f"unknown tag {node.tag}")
        self._open.remove(id(node))
        self._done.add(id(node))

    def _mapping(self, node: yaml.MappingNode) -> None:
        own: Pairs = {}
        merged: Pairs = {}
        for key, value in node.value:
            self._check(value)
            if not isinstance(key, yaml.ScalarNode):
                raise Refused(_line(key), "a key is not a name")
            if key.value in own:
                first = _line(own[key.value][0])
                raise Refused(
                    _line(key), f"key {key.value!r} is given twice, first in line {first}"
                )
            own[key.value] = key, value
        if MERGE in own and own[MERGE][0].tag == MERGE_TAG:
            merged = _merged(own.pop(MERGE)[1])
        node.value = list({**merged, **own}.values())


def _merged(node: yaml.Node) -> Pairs:
    """The keys that a merge key adds: of one mapping, or of several, the first first."""
    several = node.value if isinstance(node, yaml.SequenceNode) else [node]
    found: Pairs = {}
    for each in several:
        if not isinstance(each, yaml.MappingNode):
            raise Refused(_line(node), "`<<` takes a mapping, or a list of mappings")
        found = {**_pairs(each), **found}
    return found


class _Values:
    """Makes values of checked nodes; with their aliases expanded they are at most MOST_NODES."""

    def __init__(self) -> None:
        self._made = 0

    def of(self, node: yaml.Node) -> Any:
        self._made += 1
        if self._made > MOST_NODES:
            raise Refused(_line(node), "aliases repeat too much")
        if isinstance(node, yaml.MappingNode):
            return {name: self.of(value) for name, (_, value) in _pairs(node).items()}
        if isinstance(node, yaml.SequenceNode):
            return tuple(self.of(each) for each in node.value)
        return _scalar(node)


def _scalar(node: yaml.Node) -> Hashable:
    kind, text = node.tag.removeprefix(PREFIX), node.value
    try:
        if kind == "bool":
            return {"true": True, "false": False}[text.lower()]
        if kind == "null":
            return None
        if kind == "int":
            return int(text)
        if kind == "float":
            return float(re.sub(r"\.(?=inf|nan)", "", text.lower()))
    except (KeyError, ValueError):  # of an explicit tag, or of thousands of digits
        raise Refused(_line(node), f"{text[:40]!r} is not of type {kind}") from None
    if kind in ("str", "merge"):
        return str(text)
    raise Refused(_line(node), f"unknown tag {node.tag}")


def _pairs(node: yaml.MappingNode) -> Pairs:
    """The keys of a checked mapping as they are written, each with its nodes."""
    return {key.value: (key, value) for key, value in node.value}


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
