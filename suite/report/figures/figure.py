"""A figure as data: a Vega-Lite specification, its caption, and its text for screen readers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from suite.report.figures.colors import SURFACE

if TYPE_CHECKING:
    from suite.report.summary import TrialSummary

Spec = dict[str, Any]
Tags = Mapping[str, str]  # framework, model and device: the filter of the page reads them

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
TICKS = 10
DASHES = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3]]
WIDTH = 340  # of the plot area in pixels, without axes
# A mark's description is its framework with this prefix: the filter of the page finds it by that.
MARKED = "framework="


def tags_of(trial: TrialSummary) -> Tags:
    """The tags of what is about one trial."""
    return {"framework": trial.record.framework, **work_tags(trial)}


def work_tags(trial: TrialSummary) -> Tags:
    """The tags of what is about all trials of a workload."""
    return {"model": trial.record.workload.model, "device": trial.record.device}


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure; `name` is the stem of its file, unique in a run."""

    name: str
    caption: str
    description: str  # what a reader sees in it, for those who do not see it
    spec: Spec = field(hash=False)
    tags: Tags = field(hash=False, default_factory=dict)
    about: str = ""  # the title of its workload, or the id of its trial


def confidence_of(trials: Sequence[TrialSummary]) -> str:
    """The confidence of the trials' intervals, in brackets; empty where they differ."""
    found = {trial.measured.confidence for trial in trials if trial.measured.ci_low is not None}
    return f" ({100 * found.pop():.0f} %)" if len(found) == 1 else ""


def name_of(kind: str, *parts: str) -> str:
    """The name of a figure of this kind about `parts`, valid as a file name."""
    text = "-".join((kind, *parts)).lower()
    kept = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in text)
    return "-".join(part for part in kept.split("-") if part)


def spec(**values: Any) -> Spec:
    """A Vega-Lite specification with these top-level values."""
    return {"$schema": SCHEMA, **values}


BORDER = 5  # pixels, half of it outside of a letter
ROW = 40  # height in pixels of a row with its text above the marks


def rows_by(field: str, order: Sequence[str]) -> Spec:
    """The encoding of rows in this order, without an axis: `row_texts` says what they are."""
    return category(field, sort=list(order), axis=None)


def row_texts(field: str) -> Spec:
    """The layer with a text above the marks of each row.

    Beside the marks it would make the figure too wide for a narrow screen. A border in the color of
    the page keeps the lines behind it away from its letters.
    """
    mark = {"type": "text", "align": "left", "baseline": "bottom", "dy": -8}
    border = {**mark, "stroke": SURFACE, "strokeWidth": BORDER, "strokeJoin": "round"}
    text = {"mark": {**mark, "aria": True}, "encoding": {"description": {"field": "mark"}}}
    encoding = {"x": {"value": 2}, "text": {"field": field}}
    return {"layer": [{"mark": border}, text], "encoding": encoding}


def marked() -> Spec:
    """The transform that adds the field `mark`, the description by which the filter finds marks."""
    return {"calculate": f"'{MARKED}' + datum.framework", "as": "mark"}


def dashed(rows: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], Spec]:
    """The rows with the place of their `label` in the framework, and its encoding as dashes.

    Lines of one framework have one color: its first configuration is solid, the others are dashed.
    """
    labels: dict[str, list[str]] = {}
    for row in rows:
        known = labels.setdefault(row["framework"], [])
        if row["label"] not in known:
            known.append(row["label"])
    placed = [{**row, "place": labels[row["framework"]].index(row["label"])} for row in rows]
    scale = {"domain": [*range(len(DASHES))], "range": DASHES}
    return placed, category("place", legend=None, scale=scale)


def whole_numbers(values: Iterable[int]) -> list[int]:
    """Where the axis of these whole numbers has ticks: at each, or at about TICKS of them."""
    found = sorted(set(values))
    return found[:: len(found) // TICKS + 1]


def quantity(field: str, title: str | None, **values: Any) -> Spec:
    """The encoding of a numeric field."""
    return {"field": field, "type": "quantitative", "title": title, **values}


def category(field: str, title: str | None = None, **values: Any) -> Spec:
    """The encoding of a field with names."""
    return {"field": field, "type": "nominal", "title": title, **values}
