"""One worker, from its trial folder to a verdict: its checked events, and how it ended."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from suite import events, telemetry
from suite.engines.base import Engine, EngineLost, Event, Outcome, Prepared
from suite.errors import EngineError
from suite.events import ProtocolError
from suite.records import Error, Status
from suite.telemetry import Sample
from suite.worker.telemetry import FILE

LIKELY = {
    "SIGKILL": "the kernel does so when memory runs out",
    "SIGTERM": "an engine that shuts down does so, and docker stop",
}

OnEvent = Callable[[Event], None]


@dataclass(frozen=True, kw_only=True)
class Attempt:
    status: Status
    error: Error | None
    events: list[Event]
    samples: list[Sample] = field(default_factory=list)  # the telemetry's
    total_s: float | None = None  # from its start to its verdict
    engine_s: float | None = None  # what the engine took beyond the worker's own life


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
    """Run the worker on `folder`; whatever it does, there is a verdict.

    Raise EngineLost where the engine went away, and with it all knowledge of the worker.
    """
    started_s = time.monotonic()
    garbage: list[ProtocolError] = []
    heard: list[Event] = []

    def on_line(line: str) -> None:
        try:
            heard.append(events.parse(line))
        except ProtocolError as broken:
            garbage.append(broken)
        else:
            on_event(heard[-1])

    try:
        outcome = engine.run(
            prepared, folder, name=name, log=log, deadline_s=deadline_s, on_line=on_line
        )
    except EngineLost:
        raise
    except EngineError as refused:
        reason = Error(error_class="EngineError", message=str(refused), hint=refused.hint)
        total_s = time.monotonic() - started_s
        return Attempt(status="failed", error=reason, events=heard, total_s=total_s)
    try:
        said = events.read(folder / "results" / "events.jsonl")
    except ProtocolError as broken:
        garbage.append(broken)
        said = []
    # The file is the whole story, unless the disk was full: then the mirror has heard more.
    said = max(said, heard, key=len)
    status, error = _verdict(outcome, said, garbage, deadline_s, log)
    return Attempt(
        status=status,
        error=error,
        events=said,
        samples=telemetry.read(folder / "results" / FILE),
        total_s=time.monotonic() - started_s,
        engine_s=outcome.engine_s,
    )


def _verdict(
    outcome: Outcome, said: list[Event], garbage: list[ProtocolError], deadline_s: float, log: Path
) -> tuple[Status, Error | None]:
    hint = f"see {log}"
    failed = events.one(said, "failed")
    if outcome.end == "timeout":
        message = f"not done after {deadline_s:g} s, so it was stopped"
        return "timeout", Error(error_class="Timeout", message=message, hint=hint)
    if outcome.end == "oom":
        limit = (outcome.memory_limit_bytes or 0) / 2**30
        message = f"killed for running out of memory, of which it had {limit:.1f} GiB"
        return "oom", Error(error_class="OutOfMemory", message=message, hint="--memory gives more")
    if failed:
        status: Status = "oom" if failed["error_class"] == "MemoryError" else "failed"
        error_class, message = failed["error_class"], failed["message"]
        return status, Error(error_class=error_class, message=message, hint=hint)
    if outcome.end != "exited":
        what = "container was removed" if outcome.end == "removed" else outcome.end
        message = f"the {what} while the worker was at work"
        again = "run it again; nothing is known against the worker"
        return "failed", Error(error_class="EngineInterfered", message=message, hint=again)
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
    cause = f"; {LIKELY[name]}" if name in LIKELY else ""
    return f"the worker was killed by {name}{cause}"
