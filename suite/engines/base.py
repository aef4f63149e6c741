"""The interface of an engine: it prepares frameworks and runs workers."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

from suite.messages import Notify

if TYPE_CHECKING:
    from suite.manifests.frameworks import FrameworkManifest

OnLine = Callable[[str], None]
LOOPBACK = "127.0.0.1"  # the host of a trial whose ranks are on one machine
EngineName = Literal["docker", "venv", "slurm"]
End = Literal["exited", "timeout", "oom", "removed", "engine stopped"]


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A framework that is ready to run, and the digests that identify it."""

    framework: str
    lock_sha256: str  # with --python: the digest of the interpreter's package list
    lock: str | None = field(default=None, repr=False)  # the text that has this digest
    python: Path | None = None  # venv engine: the interpreter that runs the worker
    own_python: bool = False  # whether that interpreter is the user's (--python)
    image_id: str | None = None  # of a container
    image_file: Path | None = None  # slurm engine: the image's file


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a worker ended. Its events are in the trial's results folder."""

    exit_code: int  # negative: the signal that killed it
    end: End = "exited"
    memory_limit_bytes: int | None = None
    engine_s: float | None = None  # the engine's overhead, outside the worker's lifetime


def signed(exit_code: int) -> int:
    """The exit code of a program, or minus the signal that killed it: 128 + N from an engine."""
    return 128 - exit_code if exit_code - 128 in set(signal.Signals) else exit_code


class Stop:
    """Lets another thread end a worker."""

    def __init__(self) -> None:
        self._kills: list[Callable[[], None]] = []
        self._called = False
        self._lock = threading.Lock()

    def on_call(self, kill: Callable[[], None]) -> None:
        """Call `kill` when the worker must end, at once if that was before."""
        with self._lock:
            self._kills.append(kill)
            called = self._called
        if called:
            kill()

    def __call__(self) -> None:
        with self._lock:
            self._called = True
            kills = [*self._kills]
        for kill in kills:
            kill()


@dataclass(frozen=True, kw_only=True)
class Network:
    """How the nodes of a trial reach each other."""

    name: str | None  # the engine's; None: the nodes are processes of one machine
    hosts: tuple[str, ...]  # of each node
    separate: bool = False  # whether each node is another machine
    starts_all: bool = False  # whether one call of `run` starts the workers of all nodes


@dataclass(frozen=True, kw_only=True)
class Place:
    """The worker's place among the nodes of its trial."""

    network: Network
    node: int
    stop: Stop


@dataclass(frozen=True, kw_only=True)
class WorkerRun:
    """One run of a worker on the trial in `folder`."""

    prepared: Prepared
    folder: Path
    name: str  # unique
    log: Path  # of its standard error
    deadline_s: float  # then it is killed
    place: Place | None = None  # of a trial with several nodes


class Engine(Protocol):
    """Runs workers. A context manager: no process or container outlives the block."""

    @property
    def name(self) -> EngineName: ...

    @property
    def host(self) -> dict[str, Any]:
        """The machine on which the workers run (worker/host.py), and the engine's limits."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def prepare(self, manifest: FrameworkManifest, notify: Notify) -> Prepared:
        """Build the framework's environment or image, or reuse a current one.

        Raise FrameworkUnavailable if this machine cannot run it, EngineError if the build fails.
        """

    def is_prepared(self, manifest: FrameworkManifest) -> bool:
        """Whether `prepare` would build nothing: the framework is ready, or cannot run here."""

    def stop(self) -> None:
        """End every `prepare` and `run` in other threads, and refuse new ones."""

    def run(self, worker: WorkerRun, on_line: OnLine) -> Outcome:
        """Run one worker; each line of its standard output is passed to `on_line` at once.

        After its deadline, or when this call is interrupted, the worker and its child processes are
        killed. Raise EngineLost if the engine stops answering and does not return.
        """

    def network(self, name: str, nodes: int) -> AbstractContextManager[Network]:
        """A network for the nodes of one trial, which exists during the block."""

    @property
    def worker(self) -> Path:
        """The folder of the worker's source."""

    @property
    def worker_sha256(self) -> str:
        """The digest of the worker's source, for certificates."""
