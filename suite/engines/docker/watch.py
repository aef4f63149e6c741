"""Watches one worker in its container: passes on its output, and enforces the deadline."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from typing import IO

from suite.engines.base import OnLine, Outcome, signed
from suite.engines.docker.client import Daemon
from suite.engines.docker.container import Chunk, Container, State
from suite.engines.docker.streaming import End, queued_items
from suite.engines.errors import EngineLost
from suite.errors import EngineError

ENGINE_RETURN_S = 60.0  # how long to wait for an engine that stopped answering
KILL_GRACE_S = 30.0
POLL_S = 0.2
SILENCE_S = 2.0  # after this time without output, check whether the container still runs


class Watch:
    """Starts a container, passes on its output, and reports how it ended."""

    def __init__(
        self,
        daemon: Daemon,
        container: Container,
        deadline_s: float,
        on_line: OnLine,
        stderr: IO[bytes],
    ) -> None:
        self._daemon = daemon
        self._container = container
        self._on_line = on_line
        self._stderr = stderr
        self._incomplete_line = b""
        self._passed_on: set[bytes] = set()
        self._timed_out = False
        self._engine_stopped = False
        self.worker_s: float | None = None  # the container's lifetime
        self._deadline = time.monotonic() + deadline_s

    def until_ended(self) -> Outcome:
        """Start the container; return when it has exited, was killed or was removed."""
        # Attach before the start: output between a start and an attachment can be lost.
        chunks = self._attach()
        self._container.start()
        while True:
            complete = self._read(chunks)
            try:
                state = self._container.state()
                if state is None:
                    return Outcome(exit_code=-9, end="removed")
                if not state.ended and time.monotonic() >= self._deadline:
                    return self._kill()
                if state.ended:
                    if not complete:
                        self._read(iter([self._container.output()]))
                    return self._outcome(state.exit_code, state.oom_killed, state)
            except EngineLost:
                await_return(self._daemon)
                self._engine_stopped = True
            time.sleep(POLL_S)  # the worker closed its output, or the engine restarted
            chunks = self._attach()

    def _attach(self) -> Iterator[Chunk]:
        """Its output from the start; nothing if the container or the engine is missing."""
        try:
            return self._container.attach()
        except EngineError:
            return iter(())

    def _read(self, chunks: Iterator[Chunk]) -> bool:
        """Pass on the output from its start, until it ends or the deadline passes.

        Return whether it is complete. A container that ended before the engine attached sends
        nothing, not even an end. So while no output arrives, check whether the container runs.
        """
        queued, received = queued_items(chunks), False
        self._incomplete_line = b""
        self._stderr.seek(0)
        self._stderr.truncate()
        while True:
            left_s = self._deadline - time.monotonic()
            try:
                chunk = queued.get(timeout=max(0.0, min(left_s, SILENCE_S)))
            except queue.Empty:
                if left_s <= 0 or not self._runs():
                    return False
                continue
            if isinstance(chunk, End):
                return received and chunk.error is None
            received = True
            out, err = chunk
            self._stderr.write(err or b"")
            self._stderr.flush()
            self._pass_on(out or b"")
            if left_s <= 0 and self._runs():  # it prints without a pause
                return False

    def _pass_on(self, out: bytes) -> None:
        """Pass on whole lines, each once: after a restart the engine may send some twice."""
        *lines, self._incomplete_line = (self._incomplete_line + out).split(b"\n")
        for line in lines:
            if line not in self._passed_on:
                self._passed_on.add(line)
                self._on_line(line.decode(errors="replace"))

    def _runs(self) -> bool:
        try:
            state = self._container.state()
        except EngineLost:
            return False
        return state is not None and not state.ended

    def _kill(self) -> Outcome:
        self._timed_out = True
        self._container.kill()
        state = self._container.wait(KILL_GRACE_S)
        return self._outcome(137, False, state)

    def _outcome(self, exit_code: int, oom_killed: bool, state: State | None) -> Outcome:
        self.worker_s = state.duration_s if state is not None else None
        signed_code = signed(exit_code)
        if self._timed_out:
            return Outcome(exit_code=signed_code, end="timeout")
        if oom_killed and exit_code:
            return Outcome(exit_code=signed_code, end="oom")
        if self._engine_stopped and exit_code:
            return Outcome(exit_code=signed_code, end="engine stopped")
        return Outcome(exit_code=signed_code)


def persist(daemon: Daemon, action: Callable[[], None]) -> bool:
    """Call `action` until the engine answers it; return whether the engine was lost meanwhile."""
    lost = False
    while True:
        try:
            action()
            return lost
        except EngineLost:
            lost = True
            await_return(daemon)


def await_return(daemon: Daemon) -> None:
    """Wait until an engine that was lost answers again; EngineLost if it does not."""
    end = time.monotonic() + ENGINE_RETURN_S
    while not daemon.answers():
        if time.monotonic() >= end:
            raise EngineLost(
                f"the engine stopped answering and did not return within {ENGINE_RETURN_S:g} s",
                hint="start it again, then: dlsuite resume",
            )
        time.sleep(POLL_S)
