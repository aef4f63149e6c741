"""The JSON schemas of trial.json and of the events: the one source of docs/reference/*.schema.json.

`python -m suite.protocol.documents` writes the two files anew.
"""

from __future__ import annotations

import json
from functools import reduce
from operator import or_
from typing import Any

from pydantic import TypeAdapter

from suite.paths import REPOSITORY
from suite.protocol.event_schema import EVENTS, KINDS, Event
from suite.protocol.schema import TrialFile
from suite.worker.protocol import SCHEMA_VERSION

JSON_SCHEMA = "https://json-schema.org/draft/2020-12/schema"


def documents() -> dict[str, str]:
    """The JSON schemas in docs/reference/, by file name."""
    trial = TrialFile.model_json_schema()
    event = TypeAdapter[Any](reduce(or_, EVENTS)).json_schema()
    unknown: dict[str, Any] = Event.model_json_schema()
    unknown["properties"]["event"]["not"] = {"enum": sorted(KINDS)}
    event["anyOf"].append(unknown)
    titles = {
        "trial.schema.json": (f"trial.json, schema version {SCHEMA_VERSION}", trial),
        "events.schema.json": (
            f"A line of events.jsonl, schema version {SCHEMA_VERSION}; unknown kinds are kept",
            event,
        ),
    }
    return {
        name: json.dumps({"$schema": JSON_SCHEMA, **schema, "title": title}, indent=1) + "\n"
        for name, (title, schema) in titles.items()
    }


if __name__ == "__main__":
    for name, text in documents().items():
        (REPOSITORY / "docs" / "reference" / name).write_text(text, encoding="utf-8")
