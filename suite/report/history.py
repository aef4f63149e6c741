"""The history of each row: its rate or latency in every run, with what changed in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

from suite.errors import UsageError, nearest
from suite.manifests.tracks import configuration
from suite.protocol.expansion import split
from suite.results.changepoints import ChangePoint, change_points
from suite.results.metric import BY_SCENARIO, Metric, metric_of
from suite.results.stats import Summary

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# Rows with equal values of these belong to one series.
SERIES = ("trial_id", "cores", "interleaved", "engine", "host")
# A change of these between two runs is marked, by this word.
MARKED = {
    "framework_version": "version",
    "lock_sha256": "lock",
    "image_id": "image",
    "dlsuite": "dlsuite",
    "kernel": "kernel",
}
OF_WORK = ("framework", "variant", "track", "model", "dataset", "mode", "scenario")
OF_BATCH = ("latency_bound_s", "batch_size")
OF_SETTINGS = ("precision", "input", "optimizer", "device", "seed")
OF_POINT = ("date", "run_id", "runs", "failed", "proven")
MEASURED = tuple(dict.fromkeys(name for each in BY_SCENARIO.values() for name in each.columns))
COLUMNS = (*SERIES, *OF_WORK, *OF_BATCH, *OF_SETTINGS, *OF_POINT, *MEASURED, *MARKED)


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Which rows are shown; an empty tuple or None: all."""

    frameworks: tuple[str, ...] = ()  # each FRAMEWORK[:VARIANT][/TRACK]
    models: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()  # of inference
    host: str | None = None  # a part of the description of the machine


@dataclass(frozen=True)
class Point:
    """A row of one run; `changed` names what differs from the run before it."""

    values: dict[str, Any]
    changed: tuple[str, ...]
    change_point: ChangePoint | None

    @property
    def metric(self) -> Metric:
        """What the row is compared by."""
        return metric_of(self.values["scenario"])

    @property
    def measured(self) -> Summary:
        """The median of the metric over the runs, and its interval."""
        median, low, high = (self.values[name] for name in self.metric.columns)
        return Summary(runs=self.values["runs"], median=median, ci_low=low, ci_high=high)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None


@dataclass(frozen=True)
class Series:
    """A row over time, on one machine."""

    points: tuple[Point, ...]

    @property
    def row(self) -> Point:
        """Any of its points, for the values that all share."""
        return self.points[-1]

    @property
    def configuration(self) -> str:
        """framework:variant, and the track where it is not `equal`."""
        return configuration(self.row.framework, self.row.variant, self.row.track)

    @cached_property
    def medians(self) -> list[float]:
        """The medians of the metric in order of time, without runs that have none."""
        return [each.measured.median for each in self.points if each.measured.median]


def history(connection: DuckDBPyConnection, chosen: Filter) -> list[Series]:
    """The series of the rows that `chosen` names, by model, framework and variant.

    Raise UsageError where there is none.
    """
    where, values = _condition(chosen)
    order = "model, framework, variant, track, " + ", ".join(SERIES)
    cursor = connection.execute(
        f"select {', '.join(COLUMNS)} from trials where {where} order by {order}, date, run_id",
        values,
    )
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in cursor.fetchall()]
    if not rows:
        raise _nothing(connection, chosen)
    grouped = groupby(rows, key=lambda row: [row[name] for name in SERIES])
    return [_series(list(group)) for _, group in grouped]


def _condition(chosen: Filter) -> tuple[str, list[Any]]:
    """The condition in SQL, and the values of its parameters."""
    conditions: list[str] = ["true"]
    values: list[Any] = []
    for column, names in (
        ("model", chosen.models),
        ("variant", chosen.variants),
        ("device", chosen.devices),
        ("scenario", chosen.scenarios),
    ):
        if names:
            conditions.append(f"list_contains(?::VARCHAR[], {column})")
            values.append([*names])
    if chosen.host:
        conditions.append("contains(lower(host), lower(?))")
        values.append(chosen.host)
    alternatives = []
    for name in chosen.frameworks:
        alternatives.append("(framework = ? and ? in ('', variant) and ? in ('', track))")
        values += split(name)
    if alternatives:
        conditions.append(f"({' or '.join(alternatives)})")
    return " and ".join(conditions), values


def _nothing(connection: DuckDBPyConnection, chosen: Filter) -> UsageError:
    """The error where no row fits, with the name that is not known."""
    asked = {
        "framework": [split(name)[0] for name in chosen.frameworks],
        "model": chosen.models,
        "variant": chosen.variants,
        "device": chosen.devices,
        "scenario": chosen.scenarios,
        "host": [chosen.host] if chosen.host else [],
    }
    for column, names in asked.items():
        rows = connection.execute(f"select distinct {column} from trials").fetchall()
        known = [str(value) for (value,) in rows]
        for name in names:
            part = column == "host" and any(name.lower() in each.lower() for each in known)
            if name not in known and not part:
                return UsageError(
                    f"no record has {column} {name!r}; {nearest(name, known)}",
                    hint="dlsuite history",
                )
    return UsageError("no record fits all of these options", hint="dlsuite history")


def _series(rows: Sequence[dict[str, Any]]) -> Series:
    median = metric_of(rows[0]["scenario"]).columns[0]
    rated = [number for number, row in enumerate(rows) if row[median] and row["proven"]]
    changes = change_points([rows[number][median] for number in rated])
    at = {rated[change.position]: change for change in changes}
    changed = _changes(rows)
    return Series(
        tuple(
            Point(values=row, changed=changed[number], change_point=at.get(number))
            for number, row in enumerate(rows)
        )
    )


def _changes(rows: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    """What differs in each run from the last one before it in which the value is known."""
    found = []
    last: dict[str, Any] = {}
    for row in rows:
        known = {column: row[column] for column in MARKED if row[column] is not None}
        differing = (column for column in known if known[column] != last.get(column, known[column]))
        found.append(tuple(MARKED[column] for column in differing))
        last |= known
    return found


def as_values(series: Sequence[Series]) -> list[dict[str, Any]]:
    """A dict for each point, for JSON and CSV."""
    return [
        {
            **{name: _plain(point.values[name]) for name in COLUMNS},
            "changed": " ".join(point.changed),
            "change_ratio": point.change_point.ratio if point.change_point else None,
            "change_p_value": point.change_point.p_value if point.change_point else None,
        }
        for each in series
        for point in each.points
    ]


def _plain(value: Any) -> Any:
    return value.isoformat(sep=" ") if isinstance(value, datetime) else value
