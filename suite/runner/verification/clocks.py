"""When each run was made, by the clocks in its events: order, overlaps and copies.

The monotonic clock is that of the machine of rank 0. It restarts with the machine, whose boot_id a
record has since version 0.3. Runs by Slurm may be on any node, so their clocks are not compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from suite.protocol import events
from suite.protocol.events import Event, ProtocolError
from suite.protocol.plan import Plan
from suite.results.record import Record
from suite.runner.starts import Start
from suite.runner.verification.findings import Note, Outcome, finding

FEWEST_BLOCKS = 3  # so many durations, equal in every digit, are those of one run
SLACK_NS = 50_000_000  # the import is timed by another clock, and a start is rounded


@dataclass(frozen=True, kw_only=True)
class Span:
    """The time of a worker, from the import of its framework to its last event."""

    name: str
    position: int  # of its group in the plan
    boot_id: str | None
    start_ns: float
    end_ns: float
    outside_s: float  # what its record says about the time after its last event


def check(
    folder: Path, plan: Plan, records: Sequence[Record], starts: Sequence[Start]
) -> Iterator[Outcome]:
    """Runs that are copies, that overlap, or that are in another order than the plan's."""
    yield from _copies(records)
    if any(record.engine == "slurm" for record in records):
        yield Note(where="logs", text="engine slurm: the order of the runs is not compared")
        return
    spans = _spans(folder, plan, records)
    for boot_id in dict.fromkeys(span.boot_id for span in spans):
        of_boot = [span for span in spans if span.boot_id == boot_id]
        sessions = [start.monotonic_ns for start in starts if boot_id and start.boot_id == boot_id]
        yield from _overlaps(of_boot)
        yield from _order(of_boot, sessions, exact=boot_id is not None)
        if not plan.staged:  # whose proofs are made between the runs
            yield from _gaps(of_boot, sessions)


def _copies(records: Sequence[Record]) -> Iterator[Outcome]:
    """Two runs whose durations are equal in every digit."""
    seen: dict[tuple[float, ...], str] = {}
    for record in records:
        queries = record.inference
        durations = record.blocks.duration_s
        if queries and queries.mean_s:
            durations = (queries.mean_s, queries.min_s or 0, *queries.percentiles_s.values())
        if len(durations) < FEWEST_BLOCKS:
            continue
        if first := seen.get(durations):
            where = f"{record.name}.json"
            yield finding(where, "durations", "its own", f"in every digit those of {first}")
        seen.setdefault(durations, record.name)


def _spans(folder: Path, plan: Plan, records: Sequence[Record]) -> list[Span]:
    """The spans of the runs that have events, by their start."""
    groups = {run.name: number for number, group in enumerate(plan.groups) for run in group}
    found = []
    for record in records:
        try:
            reported = events.read(folder / "logs" / f"{record.name}.events.jsonl")
        except ProtocolError:
            continue
        if record.name in groups and (started := events.one(reported, "started")):
            found.append(_span(record, groups[record.name], reported, started))
    return sorted(found, key=lambda span: span.start_ns)


def _span(record: Record, position: int, reported: list[Event], started: Event) -> Span:
    start_ns = started["monotonic_ns"] - started["import_s"] * 1e9
    end_ns = max(event["monotonic_ns"] for event in reported)
    closing = record.parity.closing
    outside_s = (record.times.total_s or 0.0) - (end_ns - start_ns) / 1e9
    outside_s += (closing.duration_s or 0.0) if closing and not closing.batch_size else 0.0
    return Span(
        name=record.name,
        position=position,
        boot_id=record.environment.get("boot_id"),
        start_ns=start_ns,
        end_ns=end_ns,
        outside_s=max(0.0, outside_s),
    )


def _overlaps(spans: Sequence[Span]) -> Iterator[Outcome]:
    """Runs of different groups that were there at the same time."""
    for before, after in pairwise(spans):
        common_ns = before.end_ns - after.start_ns
        if before.position != after.position and common_ns > SLACK_NS:
            found = f"{common_ns / 1e9:.2f} s together with {before.name}"
            yield finding(f"{after.name}.json", "time", "alone on its machine", found)


def _order(spans: Sequence[Span], sessions: Sequence[int], *, exact: bool) -> Iterator[Outcome]:
    """Runs that started in another order than the plan's, within one start of the run.

    Older records do not tell whether the machine was restarted, which changes the order once.
    """
    if sessions and (early := [s for s in spans if s.start_ns + SLACK_NS < min(sessions)]):
        where = f"{early[0].name}.json"
        yield finding(where, "start", "after that of the run (starts/)", "before it")
    reversals = [
        (before, after)
        for before, after in pairwise(spans)
        if after.position < before.position
        and not any(before.start_ns < each <= after.start_ns for each in sessions)
    ]
    for before, after in reversals:
        text = f"it started after {before.name}, which follows it in the plan"
        if exact or len(reversals) > 1:
            yield finding(f"{after.name}.json", "order", "that of the plan", text)
        else:
            text += "; the machine may have been restarted between them"
            yield Note(where=f"{after.name}.json", text=text)


def _gaps(spans: Sequence[Span], sessions: Sequence[int]) -> Iterator[Outcome]:
    """Pauses in which another run could have been made, within one start of the run."""
    if len(spans) < 2:
        return
    shortest_s = min(span.end_ns - span.start_ns for span in spans) / 1e9
    for before, after in pairwise(spans):
        pause_s = (after.start_ns - before.end_ns) / 1e9 - before.outside_s
        resumed = any(before.start_ns < each <= after.start_ns for each in sessions)
        if pause_s > shortest_s and not resumed:
            text = (
                f"{pause_s:.1f} s between it and {before.name}, which no record explains:"
                " a run that is not in the folder would fit in"
            )
            yield Note(where=f"{after.name}.json", text=text)
