"""Runs one worker: writes trial.json, starts it, checks its events, and decides its status."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from suite.engines import nodes
from suite.engines.base import LOOPBACK, Engine, OnLine, Outcome, Prepared, WorkerRun
from suite.engines.errors import EngineLost
from suite.errors import EngineError
from suite.protocol import events, trial_file
from suite.protocol.events import Event, ProtocolError
from suite.protocol.trial_file import Node, Task
from suite.results.logs import Sample, samples_of
from suite.results.record import Error, Status
from suite.worker import ranks
from suite.worker.endings import ended
from suite.worker.launch import failure_order
from suite.worker.telemetry import FILE

# How the frameworks report that memory, of the host or of a GPU, has run out.
OUT_OF_MEMORY = {"MemoryError", "OutOfMemoryError", "ResourceExhaustedError"}
OUT_OF_MEMORY_TEXTS = ("out of memory", "can't allocate memory", "alloc_failed")

OnEvent = Callable[[Event], None]


@dataclass(frozen=True, kw_only=True)
class RankOutput:
    """What one rank wrote."""

    events: list[Event]
    samples: list[Sample]


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """The outcome of one worker; of several ranks, the events and samples are those of rank 0."""

    status: Status
    error: Error | None
    events: list[Event]
    samples: list[Sample] = field(default_factory=list)  # of the telemetry
    total_s: float | None = None  # from its start until its status is known
    engine_s: float | None = None  # the engine's overhead, outside the worker's lifetime
    others: list[RankOutput] = field(default_factory=list)  # of ranks 1, 2, ...

    @property
    def ranks(self) -> list[RankOutput]:
        """What each rank wrote, in their order."""
        return [RankOutput(events=self.events, samples=self.samples), *self.others]


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

    Raise EngineLost if the engine stops answering: the worker may then still be running. Raise
    UsageError where the machine has fewer cores than the trial has ranks.
    """
    started_s = time.monotonic()
    devices, cpus = task.trial.devices, engine.host["cpus"]
    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        with engine.network(name, devices.nodes) as network:
            address = f"{network.hosts[0]}:{free_port()}" if devices.ranks > 1 else None
            starts = 1 if network.starts_all else devices.nodes
            folders = [folder, *(folder / f"node{number}" for number in range(1, starts))]
            for number, of_node in enumerate(folders):
                node = Node(number=number, rendezvous=address, shared=not network.separate)
                own = trial_file.cpus_of(task.trial, node, cpus)
                trial_file.write(of_node, task, cpus=own, node=node)
            worker = WorkerRun(
                prepared=prepared, folder=folder, name=name, log=log, deadline_s=deadline_s
            )
            run = engine.run if starts == 1 else partial(nodes.run, engine, folders, network)
            return attempt(run, worker, on_event)
    except EngineLost:
        raise
    except EngineError as error:  # of the network
        return _failed_by_engine(error, started_s)


def attempt(
    run: Callable[[WorkerRun, OnLine], Outcome], worker: WorkerRun, on_event: OnEvent
) -> Attempt:
    """Run a worker by `run`, and decide the status of its trial; EngineLost as `run_task`."""
    started_s = time.monotonic()
    output = _Output(on_event)
    try:
        outcome = run(worker, output.line)
    except EngineLost:
        raise
    except EngineError as error:
        return _failed_by_engine(error, started_s, output.events)
    results = worker.folder / "results"
    output.add_file(results / "events.jsonl")
    status, error_of_worker = _verdict(outcome, output, worker.deadline_s, worker.log)
    return Attempt(
        status=status,
        error=error_of_worker,
        events=output.events,
        samples=samples_of(results / FILE),
        total_s=time.monotonic() - started_s,
        engine_s=outcome.engine_s,
        others=_other_ranks(results),
    )


def _failed_by_engine(
    error: EngineError, started_s: float, reported: Sequence[Event] = ()
) -> Attempt:
    return Attempt(
        status="failed",
        error=Error(error_class="EngineError", message=str(error), hint=error.hint),
        events=[*reported],
        total_s=time.monotonic() - started_s,
    )


def free_port() -> int:
    """A port of this machine that no process listens to."""
    with socket.create_server((LOOPBACK, 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _other_ranks(results: Path) -> list[RankOutput]:
    """What the ranks above 0 wrote; of an unreadable file of events, nothing."""
    found = []
    for rank in range(1, len(list(results.glob("rank*"))) + 1):
        folder = ranks.folder(results, rank)
        try:
            reported = events.read(folder / "events.jsonl")
        except ProtocolError:
            reported = []
        found.append(RankOutput(events=reported, samples=samples_of(folder / FILE)))
    return found


class _Output:
    """A worker's events, and its first violation of the protocol."""

    def __init__(self, on_event: OnEvent) -> None:
        self._on_event = on_event
        self.events: list[Event] = []
        self.violation: ProtocolError | None = None  # not all: it may print gigabytes

    def line(self, line: str) -> None:
        """Read one line of its standard output, and pass on the event."""
        try:
            event = events.parse(line)
        except ProtocolError as violation:
            self.violation = self.violation or violation
        else:
            self.events.append(event)
            self._on_event(event)

    def add_file(self, path: Path) -> None:
        """Read its file of events, which is complete unless the disk was full."""
        try:
            self.events = max(events.read(path), self.events, key=len)
        except ProtocolError as violation:
            self.violation = self.violation or violation


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
    if outcome.end != "exited":  # also where the ranks on other nodes then failed
        subject = "container was removed" if outcome.end == "removed" else outcome.end
        hint = "run it again; the worker itself did not fail"
        return failed("EngineInterfered", f"the {subject} while the worker ran", hint=hint)
    if event := _failure(output.events):
        status: Status = "oom" if _out_of_memory(event) else "failed"
        return failed(event["error_class"], event["message"], status=status)
    if outcome.exit_code:
        return failed("WorkerCrashed", f"the worker {ended(outcome.exit_code, log, here=False)}")
    if output.violation:
        return failed("ProtocolError", f"the worker violated the protocol: {output.violation}")
    if not events.one(output.events, "finished"):
        return failed("NoResult", "the worker ended without a result")
    return "ok", None


def _failure(reported: list[Event]) -> Event:
    """The event of the failure, of several ranks that of the first; empty where there is none."""
    of_ranks = [each for each in events.of(reported, "failed") if "rank" in each]
    return min(of_ranks, key=failure_order, default=events.one(reported, "failed"))


def _out_of_memory(event: Event) -> bool:
    """Whether memory ran out: by the exception's class, or by its message (JAX, MXNet, cuDNN)."""
    message = event["message"].lower()
    return event["error_class"] in OUT_OF_MEMORY or any(
        text in message for text in OUT_OF_MEMORY_TEXTS
    )
