"""How each run ended: a failure must be one that its events show."""

from __future__ import annotations

from collections.abc import Iterator

from suite.protocol import events
from suite.protocol.events import Event
from suite.results.record import Record
from suite.runner import plausibility
from suite.runner.verification.findings import Outcome, finding

# Failures that the host finds, whatever the worker reported.
OF_HOST = {plausibility.CLASS, "Timeout", "OutOfMemory", "EngineInterfered", "EngineError"}
OF_HOST |= {"WorkerCrashed", "ProtocolError"}


def check(where: str, record: Record, reported: list[Event]) -> Iterator[Outcome]:
    """Whether a run that is not ok failed as its record says."""
    if record.status == "ok" or not reported:
        return
    if record.status == "skipped":
        yield finding(where, "status", "none of skipped, its worker has events", record.status)
        return
    failures = events.of(reported, "failed")
    recorded = record.error.error_class if record.error else None
    if recorded in OF_HOST and not failures:
        return
    if not failures:
        yield finding(where, "error", "a failure in the events", recorded)
    elif recorded not in OF_HOST and recorded not in {each["error_class"] for each in failures}:
        yield finding(where, "error.error_class", failures[0]["error_class"], recorded)
