"""Strict YAML files: an unknown key is an error, with its line and the nearest known key.

A value has the type of its field: neither `yes` nor `"1"` nor `1.0` is an integer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from suite.errors import ManifestError, nearest
from suite.manifests import yaml_file
from suite.manifests.yaml_file import Document


class Strict(BaseModel):
    """A frozen model that refuses unknown keys."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, allow_inf_nan=False)


M = TypeVar("M", bound=Strict)
WRONG_TYPES = {"bool_type", "int_type", "float_type", "string_type"}
LONGEST = 40  # characters of a value that are shown
Name = Annotated[str, Field(pattern=r"^[a-z0-9_]+$")]


def several(value: object) -> object:
    """One text as several, before a field is checked."""
    return (value,) if isinstance(value, str) else value


def load(path: Path, schema: type[M], change: Callable[[Any], Any] = lambda values: values) -> M:
    """Read and check one manifest; ManifestError names the file, the line and the reason.

    `change` is applied to the values before they are checked.
    """
    try:
        document = yaml_file.read(path.read_bytes())
        return schema.model_validate(change(document.values), strict=True)
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror}", hint="dlsuite list") from None
    except yaml_file.Refused as error:
        raise ManifestError(f"{path}:{error.line}: {error}", hint=f"edit {path}") from None
    except ValidationError as error:
        # A misspelt key also causes an error for the missing key; the misspelling explains more.
        first = min(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
        line, reason = document.line(first["loc"]), _reason(schema, document, first)
        raise ManifestError(f"{path}:{line}: {reason}", hint=f"edit {path}") from None


def _reason(schema: type[BaseModel], document: Document, error: Any) -> str:
    location = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        key = str(error["loc"][-1])
        return f"unknown key {key!r}; {nearest(key, _keys(schema, error['loc'][:-1]))}"
    message = error["msg"].removeprefix("Value error, ")
    written = document.written(error["loc"])
    if error["type"] in WRONG_TYPES and written:
        message += f", not {' '.join(written.split())[:LONGEST]}"
    return f"{location}: {message}" if location else str(message)


def _keys(schema: type[BaseModel], location: tuple[int | str, ...]) -> set[str]:
    """The valid keys at `location`, found by following the references in the schema."""
    root = schema.model_json_schema()
    found: list[Mapping[str, Any]] = [root]
    for part in location:
        found = [
            inner
            for each in found
            for option in _options(root, each)
            for inner in _step(option, part)
        ]
    options = [option for each in found for option in _options(root, each)]
    return {key for option in options for key in option.get("properties", {})}


def _options(root: Mapping[str, Any], node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if "$ref" in node:
        return _options(root, root["$defs"][node["$ref"].rsplit("/", 1)[1]])
    alternatives = node.get("anyOf") or node.get("oneOf") or node.get("allOf")
    if alternatives:
        return [option for each in alternatives for option in _options(root, each)]
    return [node]


def _step(node: Mapping[str, Any], part: int | str) -> list[Mapping[str, Any]]:
    if isinstance(part, int):
        return [node["items"]] if "items" in node else []
    if part in node.get("properties", {}):
        return [node["properties"][part]]
    # The location of an error also holds the tag of a union, which is not a level of the file.
    if isinstance(node.get("additionalProperties"), dict):
        return [node["additionalProperties"]]
    tagged = any(each.get("const") == part for each in node.get("properties", {}).values())
    return [node] if tagged else []


def first_problem(error: ValidationError) -> str:
    """The first problem of an invalid value, with the key where it is."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    message = first["msg"].removeprefix("Value error, ")
    return f"{where}: {message}" if where else message
