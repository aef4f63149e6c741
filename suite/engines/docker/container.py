"""A container of the engine: its state, its output and its files."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import IO, Any

from docker.errors import APIError, NotFound
from docker.models.containers import Container as SdkContainer

from suite.engines.docker.connection import sdk_errors
from suite.engines.docker.streaming import write
from suite.engines.errors import EngineLost
from suite.errors import EngineError

POLL_S = 0.02
CONFLICT = 409
REMOVAL_S = 20.0  # how long the removal of a container may take; then its volumes are free
Labels = dict[str, str]
Chunk = tuple[bytes | None, bytes | None]  # standard output, standard error


@dataclass(frozen=True, kw_only=True)
class State:
    """The engine's description of an existing container."""

    status: str  # created, running, exited ...
    exit_code: int
    oom_killed: bool
    started_at: float  # seconds since the epoch, by the engine's clock; 0: never
    finished_at: float

    @property
    def ended(self) -> bool:
        """Whether it ran and has ended."""
        # Podman resets an ended container to "created" when a client attaches to it.
        finished = self.status != "running" and self.finished_at > self.started_at > 0
        return finished or self.status in ("exited", "dead")

    @property
    def duration_s(self) -> float | None:
        """How long it ran; None if it has not ended.

        The runtime reports the end and the engine reports the start, with a small delay. For a
        container that ends at once the reported end may precede the reported start.
        """
        return max(0.0, self.finished_at - self.started_at) if self.finished_at > 0 else None


class Container:
    """One container. Another client may remove it at any time: then `state` is None."""

    def __init__(self, sdk: SdkContainer) -> None:
        self._sdk = sdk
        self.container_id: str = sdk.id
        self.name: str = sdk.name
        self.labels: Labels = sdk.labels
        self._killed = False

    def state(self) -> State | None:
        """Its state; None if it was removed. A removal in progress is awaited."""
        end = time.monotonic() + REMOVAL_S
        while True:
            with sdk_errors():
                try:
                    self._sdk.reload()
                except NotFound:
                    return None
            state: dict[str, Any] = self._sdk.attrs["State"]
            if state["Status"] not in ("removing", "dead") or time.monotonic() >= end:
                break
            time.sleep(POLL_S)
        return State(
            status=state["Status"],
            exit_code=state["ExitCode"],
            oom_killed=state["OOMKilled"],
            started_at=_seconds(state["StartedAt"]),
            finished_at=_seconds(state["FinishedAt"]),
        )

    def wait(self, timeout_s: float) -> State | None:
        """Its state once it has ended; None if it was removed or still runs after the timeout."""
        end = time.monotonic() + timeout_s
        while (state := self.state()) and not state.ended:
            if time.monotonic() >= end:
                return None
            time.sleep(POLL_S)
        return state

    def inspect(self) -> dict[str, Any]:
        """All attributes that the engine reports of it."""
        with sdk_errors():
            self._sdk.reload()
        attrs: dict[str, Any] = self._sdk.attrs
        return attrs

    def start(self) -> None:
        """Start it; where it was killed before, kill it again, because that had no effect."""
        with sdk_errors():
            self._sdk.start()
        if self._killed:
            self.kill()

    def attach(self) -> Iterator[Chunk]:
        """Its output from the start until it ends; nothing if it has ended already.

        While it runs, output that is written during this call can be lost.
        """
        with sdk_errors():
            chunks: Iterator[Chunk] = self._sdk.attach(
                stdout=True, stderr=True, stream=True, demux=True, logs=True
            )
        return chunks

    def output(self) -> tuple[bytes, bytes]:
        """Its complete standard output and standard error."""
        with sdk_errors():
            out: bytes = self._sdk.logs(stdout=True, stderr=False)
            err: bytes = self._sdk.logs(stdout=False, stderr=True)
        return out, err

    def put(self, folder: str, archive: IO[bytes]) -> None:
        """Unpack a tar archive into a folder on a volume; the container need not be running."""
        with sdk_errors():
            self._sdk.put_archive(folder, archive)

    def fetch(self, path: str, into: IO[bytes]) -> bool:
        """Write a tar archive of a file or folder to `into`; False if there is none."""
        try:
            with sdk_errors():
                try:
                    chunks, _ = self._sdk.get_archive(path)
                except NotFound:
                    return False
            write(chunks, into)
        except EngineLost:
            raise
        except EngineError:
            if self.state() is None:  # it was removed meanwhile
                return False
            raise
        return True

    def kill(self) -> None:
        """Kill it, now or as soon as it starts; no error if it has ended or was removed."""
        self._killed = True
        with sdk_errors():
            try:
                self._sdk.kill()
            except APIError as error:
                if error.status_code not in (404, CONFLICT):
                    raise

    def remove(self) -> None:
        """Kill and remove it; no error if it was removed already."""
        with sdk_errors():
            try:
                self._sdk.remove(force=True)
            except NotFound:
                return
            except APIError as error:
                if error.status_code != CONFLICT:  # another client is removing it
                    raise


def _seconds(stamp: str) -> float:
    """Seconds since the epoch of an RFC 3339 time; 0 for the year 1, which stands for never."""
    return 0.0 if stamp.startswith("0001") else datetime.fromisoformat(stamp).timestamp()
