"""A figure as data: a Vega-Lite specification, its caption, and its text for screen readers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Spec = dict[str, Any]

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
WIDTH = 460  # of the plot area in pixels, without axes
# A mark's description is its framework with this prefix: the filter of the page finds it by that.
MARKED = "framework="


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure; `name` is the stem of its file, unique in a run."""

    name: str
    caption: str
    description: str  # what a reader sees in it, for those who do not see it
    spec: Spec = field(hash=False)
    trial_id: str | None = None  # of a figure of one trial


def name_of(kind: str, *parts: str) -> str:
    """The name of a figure of this kind about `parts`, valid as a file name."""
    text = "-".join((kind, *parts)).lower()
    kept = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in text)
    return "-".join(part for part in kept.split("-") if part)


def spec(**values: Any) -> Spec:
    """A Vega-Lite specification with these top-level values."""
    return {"$schema": SCHEMA, **values}


def quantity(field: str, title: str | None, **values: Any) -> Spec:
    """The encoding of a numeric field."""
    return {"field": field, "type": "quantitative", "title": title, **values}


def category(field: str, title: str | None = None, **values: Any) -> Spec:
    """The encoding of a field with names."""
    return {"field": field, "type": "nominal", "title": title, **values}
