"""The events of a worker, checked against their schema (protocol/event_schema.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from suite.manifests import json_file
from suite.manifests.strict import first_problem
from suite.protocol.event_schema import model_of

Event = dict[str, Any]


class ProtocolError(Exception):
    """A line of a worker is not an event of the protocol."""


def parse(line: str) -> Event:
    """One event; ProtocolError where the line is not an event or violates the schema of its kind.

    Events of an unknown kind are kept unchanged.
    """
    try:
        event = json_file.loads(line)
    except ValueError as error:
        twice = f" ({error})" if "twice" in str(error) else ""
        raise ProtocolError(f"not JSON: {line.strip()[:80]!r}{twice}") from None
    kind = event.get("event") if isinstance(event, dict) else None
    try:
        model_of(kind).model_validate(event)
    except ValidationError as error:
        raise ProtocolError(f"{first_problem(error)} in {line.strip()[:80]!r}") from None
    parsed: Event = event
    return parsed


def read(path: Path) -> list[Event]:
    """All events in a worker's file, if it exists; ProtocolError names the line."""
    if not path.is_file():
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
