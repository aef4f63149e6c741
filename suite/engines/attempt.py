"""Runs one worker: writes trial.json, starts it, checks its events, and decides its status."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from suite.engines.base import Engine, Outcome, Prepared
from suite.engines.errors import EngineLost
from suite.errors import EngineError
from suite.protocol import events, trial_file
from suite.protocol.events import Event, ProtocolError
from suite.protocol.trial_file import Task
from suite.results.record import Error, Status
from suite.worker.telemetry import FILE

LIKELY_CAUSE = {
    "SIGKILL": "the kernel sends it when memory runs out",
    "SIGTERM": "an engine that shuts down sends it, and so does docker stop",
}

# How the frameworks report that memory, of the host or of a GPU, has run out.
OUT_OF_MEMORY = {"MemoryError", "OutOfMemoryError", "ResourceExhaustedError"}
OUT_OF_MEMORY_TEXTS = ("out of memory", "can't allocate memory", "alloc_failed")

Sample = dict[str, Any]  # of the telemetry (docs/protocol.md)
OnEvent = Callable[[Event], None]


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """The outcome of one worker."""

    status: Status
    error: Error | None
    events: list[Event]
    samples: list[Sample] = field(default_factory=list)  # of the telemetry
    total_s: float | None = None  # from its start until its status is known
    engine_s: float | None = None  # the engine's overhead, outside the worker's lifetime


def run_task(
    engine: Engine,
    prepared: Prepared,
    task: Task,
    folder: Path,
    *,
    name: str,
    log: Path,
    deadline_s: float,
    on_event: OnEvent = lambda event: None,
) -> Attempt:
    """Write trial.json into the new `folder`, run a worker on it, and decide its status.

    Raise EngineLost if the engine stops answering: the worker may then still be running.
    """
    trial_file.write(folder, task, cpus=engine.host["cpus"])
    log.parent.mkdir(parents=True, exist_ok=True)
    return attempt(
        engine, prepared, folder, name=name, log=log, deadline_s=deadline_s, on_event=on_event
    )


def attempt(
    engine: Engine,
    prepared: Prepared,
    folder: Path,
    *,
    name: str,
    log: Path,
    deadline_s: float,
    on_event: OnEvent,
) -> Attempt:
    """Run a worker on the trial in `folder`, and decide its status; EngineLost as `run_task`."""
    started_s = time.monotonic()
    output = _Output(on_event)
    try:
        outcome = engine.run(
            prepared, folder, name=name, log=log, deadline_s=deadline_s, on_line=output.line
        )
    except EngineLost:
        raise
    except EngineError as error:
        return Attempt(
            status="failed",
            error=Error(error_class="EngineError", message=str(error), hint=error.hint),
            events=output.events,
            total_s=time.monotonic() - started_s,
        )
    output.add_file(folder / "results" / "events.jsonl")
    status, error_of_worker = _verdict(outcome, output, deadline_s, log)
    return Attempt(
        status=status,
        error=error_of_worker,
        events=output.events,
        samples=_samples(folder / "results" / FILE),
        total_s=time.monotonic() - started_s,
        engine_s=outcome.engine_s,
    )


class _Output:
    """A worker's events, and its violations of the protocol."""

    def __init__(self, on_event: OnEvent) -> None:
        self._on_event = on_event
        self.events: list[Event] = []
        self.violations: list[ProtocolError] = []

    def line(self, line: str) -> None:
        """Read one line of its standard output, and pass on the event."""
        try:
            event = events.parse(line)
        except ProtocolError as violation:
            self.violations.append(violation)
        else:
            self.events.append(event)
            self._on_event(event)

    def add_file(self, path: Path) -> None:
        """Read its file of events, which is complete unless the disk was full."""
        try:
            self.events = max(events.read(path), self.events, key=len)
        except ProtocolError as violation:
            self.violations.append(violation)


def _verdict(
    outcome: Outcome, output: _Output, deadline_s: float, log: Path
) -> tuple[Status, Error | None]:
    def failed(
        error_class: str, message: str, *, hint: str = f"see {log}", status: Status = "failed"
    ) -> tuple[Status, Error]:
        return status, Error(error_class=error_class, message=message, hint=hint)

    if outcome.end == "timeout":
        message = f"not finished after {deadline_s:g} s, so it was stopped"
        return failed("Timeout", message, status="timeout")
    if outcome.end == "oom":
        limit_gib = (outcome.memory_limit_bytes or 0) / 2**30
        message = f"killed because it ran out of memory (limit {limit_gib:.1f} GiB)"
        return failed("OutOfMemory", message, hint="--memory raises the limit", status="oom")
    if event := events.one(output.events, "failed"):
        status: Status = "oom" if _out_of_memory(event) else "failed"
        return failed(event["error_class"], event["message"], status=status)
    if outcome.end != "exited":
        subject = "container was removed" if outcome.end == "removed" else outcome.end
        hint = "run it again; the worker itself did not fail"
        return failed("EngineInterfered", f"the {subject} while the worker ran", hint=hint)
    if outcome.exit_code:
        return failed("WorkerCrashed", _exit_message(outcome.exit_code))
    if output.violations:
        return failed("ProtocolError", f"the worker violated the protocol: {output.violations[0]}")
    if not events.one(output.events, "finished"):
        return failed("NoResult", "the worker ended without a result")
    return "ok", None


def _out_of_memory(event: Event) -> bool:
    """Whether memory ran out: by the exception's class, or by its message (JAX, MXNet, cuDNN)."""
    message = event["message"].lower()
    return event["error_class"] in OUT_OF_MEMORY or any(
        text in message for text in OUT_OF_MEMORY_TEXTS
    )


def _exit_message(exit_code: int) -> str:
    if exit_code > 0:
        return f"the worker exited with code {exit_code} without reporting an error"
    name = signal.Signals(-exit_code).name
    cause = f"; {LIKELY_CAUSE[name]}" if name in LIKELY_CAUSE else ""
    return f"the worker was killed by {name}{cause}"


def _samples(path: Path) -> list[Sample]:
    """The samples in a worker's file; none if there is no file. Invalid lines are omitted."""
    if not path.exists():
        return []
    found = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found
