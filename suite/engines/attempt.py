"""Runs one worker: writes trial.json, starts it, checks its events, and judges how it ended."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from suite.engines.base import Engine, EngineLost, Outcome, Prepared
from suite.errors import EngineError
from suite.protocol import events, trial_file
from suite.protocol.events import Event, ProtocolError
from suite.protocol.trial_file import Task
from suite.results import telemetry
from suite.results.record import Error, Status
from suite.results.telemetry import Sample
from suite.worker.telemetry import FILE

LIKELY_CAUSE = {
    "SIGKILL": "the kernel does so when memory runs out",
    "SIGTERM": "an engine that shuts down does so, and docker stop",
}

OnEvent = Callable[[Event], None]


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """The outcome of one worker."""

    status: Status
    error: Error | None
    events: list[Event]
    samples: list[Sample] = field(default_factory=list)  # of the telemetry
    total_s: float | None = None  # from its start to its verdict
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
    """Write trial.json into the new `folder`, run a worker on it, and judge the outcome.

    Raise EngineLost where the engine stops answering: the worker's fate is then unknown.
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
    """Run a worker on the trial in `folder`, and judge the outcome; EngineLost as `run_task`."""
    started_s = time.monotonic()
    violations: list[ProtocolError] = []
    received: list[Event] = []

    def on_line(line: str) -> None:
        try:
            received.append(events.parse(line))
        except ProtocolError as error:
            violations.append(error)
        else:
            on_event(received[-1])

    try:
        outcome = engine.run(
            prepared, folder, name=name, log=log, deadline_s=deadline_s, on_line=on_line
        )
    except EngineLost:
        raise
    except EngineError as refused:
        reason = Error(error_class="EngineError", message=str(refused), hint=refused.hint)
        total_s = time.monotonic() - started_s
        return Attempt(status="failed", error=reason, events=received, total_s=total_s)
    try:
        written = events.read(folder / "results" / "events.jsonl")
    except ProtocolError as violation:
        violations.append(violation)
        written = []
    # The file is complete, unless the disk was full: then standard output has more.
    reported = max(written, received, key=len)
    status, error = _verdict(outcome, reported, violations, deadline_s, log)
    return Attempt(
        status=status,
        error=error,
        events=reported,
        samples=telemetry.read(folder / "results" / FILE),
        total_s=time.monotonic() - started_s,
        engine_s=outcome.engine_s,
    )


def _verdict(
    outcome: Outcome,
    reported: list[Event],
    violations: list[ProtocolError],
    deadline_s: float,
    log: Path,
) -> tuple[Status, Error | None]:
    hint = f"see {log}"
    failed = events.one(reported, "failed")
    if outcome.end == "timeout":
        message = f"not finished after {deadline_s:g} s, so it was stopped"
        return "timeout", Error(error_class="Timeout", message=message, hint=hint)
    if outcome.end == "oom":
        limit_gib = (outcome.memory_limit_bytes or 0) / 2**30
        message = f"killed because it ran out of memory (limit {limit_gib:.1f} GiB)"
        return "oom", Error(
            error_class="OutOfMemory", message=message, hint="--memory raises the limit"
        )
    if failed:
        status: Status = "oom" if failed["error_class"] == "MemoryError" else "failed"
        error_class, message = failed["error_class"], failed["message"]
        return status, Error(error_class=error_class, message=message, hint=hint)
    if outcome.end != "exited":
        subject = "container was removed" if outcome.end == "removed" else outcome.end
        message = f"the {subject} while the worker ran"
        again = "run it again; the worker itself did not fail"
        return "failed", Error(error_class="EngineInterfered", message=message, hint=again)
    if outcome.exit_code:
        message = _exit_message(outcome.exit_code)
        return "failed", Error(error_class="WorkerCrashed", message=message, hint=hint)
    if violations:
        message = f"the worker violated the protocol: {violations[0]}"
        return "failed", Error(error_class="ProtocolError", message=message, hint=hint)
    if not events.one(reported, "finished"):
        message = "the worker ended without a result"
        return "failed", Error(error_class="NoResult", message=message, hint=hint)
    return "ok", None


def _exit_message(exit_code: int) -> str:
    if exit_code > 0:
        return f"the worker exited with code {exit_code} without reporting an error"
    name = signal.Signals(-exit_code).name
    cause = f"; {LIKELY_CAUSE[name]}" if name in LIKELY_CAUSE else ""
    return f"the worker was killed by {name}{cause}"
