"""The events of a worker, checked against their schema (docs/events.schema.json)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from suite.paths import SCHEMAS

Event = dict[str, Any]


class ProtocolError(Exception):
    """A line of a worker is not an event of the protocol."""


def parse(line: str) -> Event:
    """One event; ProtocolError where the line is not an event or violates the schema of its kind.

    Events of an unknown kind are kept unchanged.
    """
    try:
        event = json.loads(line)
    except ValueError:
        raise ProtocolError(f"not JSON: {line.strip()[:80]!r}") from None
    problem = next(validator("events").iter_errors(event), None)
    if problem is not None:
        raise ProtocolError(f"{problem.message[:200]} in {line.strip()[:80]!r}")
    parsed: Event = event
    return parsed


def read(path: Path) -> list[Event]:
    """All events in a worker's file, if it exists; ProtocolError names the line."""
    if not path.exists():
        return []
    events = []
    text = path.read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            events.append(parse(line))
        except ProtocolError as error:
            raise ProtocolError(f"line {number} of events.jsonl: {error}") from None
    return events


def of(events: list[Event], kind: str) -> list[Event]:
    """The events of a kind."""
    return [event for event in events if event["event"] == kind]


def one(events: list[Event], kind: str) -> Event:
    """The last event of a kind; an empty one where there is none."""
    return next(iter(reversed(of(events, kind))), {})


@cache
def validator(name: str) -> Draft202012Validator:
    schema: dict[str, Any] = json.loads((SCHEMAS / f"{name}.schema.json").read_text("utf-8"))
    return Draft202012Validator(schema)
