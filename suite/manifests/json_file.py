"""Reads JSON strictly, so that a value is what every reader takes it for."""

from __future__ import annotations

import json
from typing import Any


def loads(text: str | bytes) -> Any:
    """The value of a JSON text.

    Raise ValueError where it is not JSON, gives a key twice, or is nested too deeply.
    """
    try:
        return json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("not JSON: too many levels") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"key {twice!r} is given twice")
    return values
