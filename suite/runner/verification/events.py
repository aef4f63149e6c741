"""Computes the figures of a record again, from the events and samples that the run kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from suite.engines.attempt import Attempt, RankOutput
from suite.protocol import events
from suite.protocol.events import Event, ProtocolError
from suite.results.logs import samples_of
from suite.results.record import Record
from suite.runner import recording
from suite.runner.verification import endings, predictions, queries, rules, samples, steps
from suite.runner.verification.findings import Outcome, compared, finding
from suite.worker.telemetry import FILE

# Measured by the host, so they are in no event.
OF_HOST = {"total_s", "engine_s"}


def check(
    where: str,
    record: Record,
    folder: Path,
    train_samples: int | None = None,
    *,
    same_worker: bool = False,
) -> Iterator[Outcome]:
    """Compare a record with the events and samples in `logs/` of the run's folder.

    `train_samples` are those of its dataset; None where they are unknown. `same_worker`: it was run
    by the worker of this version, whose rules are known.
    """
    logs = folder / "logs"
    path = logs / f"{record.name}.events.jsonl"
    if not path.exists():
        if record.status == "ok":
            yield finding(where, "events", f"logs/{path.name}", "none")
        return
    try:
        ranks = [_rank(logs, record.name, rank) for rank in range(record.devices.ranks)]
    except ProtocolError as error:
        if record.status == "ok":
            yield finding(f"logs/{path.name}", "content", "events of the protocol", error)
        return
    attempt = Attempt(
        status=record.status,
        error=None,
        events=ranks[0].events,
        samples=ranks[0].samples,
        others=ranks[1:],
    )
    yield from _compared(where, record, attempt)
    yield from endings.check(where, record, attempt.events)
    if record.status == "ok":
        yield from steps.check(where, record, attempt.events, train_samples)
        yield from samples.check(where, record, attempt.events, attempt.samples)
        yield from predictions.check(where, record, folder)
        yield from queries.check(where, record, folder)
        if same_worker:
            yield from rules.check(where, record, attempt.events)


def _compared(where: str, record: Record, attempt: Attempt) -> Iterator[Outcome]:
    """Compare a record with what the code that made it makes of the same events."""
    found = record.model_dump()
    again = recording.measured(
        attempt, record.workload.batch_size, record.measure.min_measure_s, record.name
    )
    expected = record.model_copy(update=again).model_dump()
    for name in again:
        omitted = OF_HOST if name == "times" else set()
        yield from compared(
            where, name, _without(expected[name], omitted), _without(found[name], omitted)
        )
    started = events.one(attempt.events, "started")
    built = events.one(attempt.events, "built")
    yield from compared(
        where, "framework_version", started.get("framework_version"), record.framework_version
    )
    yield from compared(where, "parameters", built.get("parameters"), record.parameters)
    yield from compared(
        where,
        "environment.worker",
        {"versions": started.get("versions"), "device": built.get("device")},
        record.environment.get("worker"),
    )
    if record.status == "ok":
        yield from _ending(where, record, attempt)


def _ending(where: str, record: Record, attempt: Attempt) -> Iterator[Outcome]:
    """Whether a worker finished and, where it wrote a closing proof, the record has its result."""
    if not events.one(attempt.events, "finished"):
        yield finding(where, "status", "a failure, the worker did not finish", "ok")
    if written := events.one(attempt.events, "closing"):
        closing = record.parity.closing
        found = closing.step if closing else None
        yield from compared(where, "parity.closing.step", written["step"], found)


def _rank(logs: Path, name: str, rank: int) -> RankOutput:
    stem = f"{name}{recording.rank_suffix(rank)}"
    reported: list[Event] = events.read(logs / f"{stem}.events.jsonl")
    return RankOutput(events=reported, samples=samples_of(logs / f"{stem}.{FILE}"))


def _without(values: object, omitted: set[str]) -> object:
    """A dict without some keys; any other value as it is."""
    if not isinstance(values, dict):
        return values
    return {key: value for key, value in values.items() if key not in omitted}
