"""What a worker says, checked against the protocol's schema (docs/events.schema.json)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from suite.engines.base import Event
from suite.paths import SCHEMAS


class ProtocolError(Exception):
    """A worker said something that the protocol does not know how to read."""


def parse(line: str) -> Event:
    """One event; ProtocolError where the line is no event or breaks the schema of its kind.

    Events of an unknown kind are kept as they are.
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
    """All events of a worker's file; ProtocolError names the line. No file: no events."""
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
    return [event for event in events if event["event"] == kind]


def one(events: list[Event], kind: str) -> Event:
    """The last event of a kind, or an empty one: its values are then unknown."""
    return next(iter(reversed(of(events, kind))), {})


@cache
def validator(name: str) -> Draft202012Validator:
    schema: dict[str, Any] = json.loads((SCHEMAS / f"{name}.schema.json").read_text("utf-8"))
    return Draft202012Validator(schema)
