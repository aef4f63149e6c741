"""One worker, from its trial folder to a verdict: its checked events, and how it ended."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from suite import events
from suite.engines.base import Engine, Event, Outcome, Prepared
from suite.events import ProtocolError
from suite.records import Error, Status

OnEvent = Callable[[Event], None]


@dataclass(frozen=True, kw_only=True)
class Attempt:
    status: Status
    error: Error | None
    events: list[Event]


def attempt(
    engine: Engine,
    prepared: Prepared,
    folder: Path,
    *,
    log: Path,
    deadline_s: float,
    on_event: OnEvent,
) -> Attempt:
    """Run the worker on `folder`; whatever it does, there is a verdict."""
    garbage: list[ProtocolError] = []

    def on_line(line: str) -> None:
        try:
            on_event(events.parse(line))
        except ProtocolError as broken:
            garbage.append(broken)

    outcome = engine.run(prepared, folder, log=log, deadline_s=deadline_s, on_line=on_line)
    try:
        said = events.read(folder / "results" / "events.jsonl")
    except ProtocolError as broken:
        garbage.append(broken)
        said = []
    status, error = _verdict(outcome, said, garbage, deadline_s, log)
    return Attempt(status=status, error=error, events=said)


def _verdict(
    outcome: Outcome, said: list[Event], garbage: list[ProtocolError], deadline_s: float, log: Path
) -> tuple[Status, Error | None]:
    hint = f"see {log}"
    failed = events.one(said, "failed")
    if outcome.timed_out:
        message = f"not done after {deadline_s:g} s, so it was stopped"
        return "timeout", Error(error_class="Timeout", message=message, hint=hint)
    if failed:
        status: Status = "oom" if failed["error_class"] == "MemoryError" else "failed"
        error_class, message = failed["error_class"], failed["message"]
        return status, Error(error_class=error_class, message=message, hint=hint)
    if outcome.exit_code:
        message = _death(outcome.exit_code)
        return "failed", Error(error_class="WorkerCrashed", message=message, hint=hint)
    if garbage:
        message = f"the worker broke the protocol: {garbage[0]}"
        return "failed", Error(error_class="ProtocolError", message=message, hint=hint)
    if not events.one(said, "finished"):
        message = "the worker ended without a result"
        return "failed", Error(error_class="NoResult", message=message, hint=hint)
    return "ok", None


def _death(exit_code: int) -> str:
    if exit_code > 0:
        return f"the worker ended with exit code {exit_code} and no word why"
    name = signal.Signals(-exit_code).name
    cause = "; the kernel does so when memory runs out" if name == "SIGKILL" else ""
    return f"the worker was killed by {name}{cause}"
