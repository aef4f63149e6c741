"""An architecture from its form in trial.json, as a run or a certificate keeps it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from suite.models import branches, layers, sequences, windows
from suite.models.architecture import Architecture
from suite.models.layer import Layer

MODULES = (layers, sequences, windows, branches)


def architecture_of(values: Mapping[str, Any]) -> Architecture:
    """The architecture whose `to_json` gave these values.

    Raise ValueError, LookupError or TypeError where they are not those of one.
    """
    made = Architecture(
        name=values["name"],
        input_shape=tuple(values["input_shape"]),
        classes=values["classes"],
        layers=tuple(map(layer_of, values["layers"])),
    )
    made.shapes()
    return made


def layer_of(values: Mapping[str, Any]) -> Layer:
    """A layer from its form in trial.json; a field that an older version lacks has its default."""
    kind = _kinds()[values["kind"]]
    named = (each.name for each in fields(kind) if each.name in values)
    known: dict[str, Any] = {name: _plain(values[name]) for name in named if name != "branches"}
    if "branches" in values:
        known["branches"] = tuple(tuple(map(layer_of, each)) for each in values["branches"])
    return kind(**known)


def _kinds() -> dict[str, type[Layer]]:
    """Each kind of layer by its name."""
    return {each.kind: each for each in _subclasses(Layer) if "kind" in vars(each)}


def _subclasses(of: type[Layer]) -> Iterator[type[Layer]]:
    for each in of.__subclasses__():
        yield each
        yield from _subclasses(each)


def _plain(value: object) -> object:
    """A list of JSON as a tuple."""
    return tuple(map(_plain, value)) if isinstance(value, list) else value
