"""What an engine is to the rest of the suite."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol, Self

from suite.errors import EngineError
from suite.manifest import FrameworkManifest

Event = dict[str, Any]
OnLine = Callable[[str], None]
Say = Callable[[str], None]
EngineName = Literal["docker", "venv"]
End = Literal["exited", "timeout", "oom", "removed", "engine stopped"]


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A framework that can be run: where, and what identifies it."""

    framework: str
    lock_sha256: str  # of an interpreter of the user's own: of the packages it has
    python: Path | None = None  # of its virtual environment
    own_python: bool = False  # the user's, with whatever is in it
    image_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a worker ended; what it said lies in the folder's results."""

    exit_code: int  # negative: the signal that killed it
    end: End = "exited"
    memory_limit_bytes: int | None = None
    engine_s: float | None = None  # what the engine took beyond the worker's own life


class FrameworkUnavailable(Exception):
    """This machine cannot run the framework, through no fault: its runs are skipped."""

    def __init__(self, reason: str, *, hint: str) -> None:
        super().__init__(reason)
        self.hint = hint


class EngineLost(EngineError):
    """The engine does not answer (any more); what it has under way may still come to an end."""


class Engine(Protocol):
    """A context manager: what it started does not outlive it."""

    @property
    def name(self) -> EngineName: ...

    @property
    def host(self) -> dict[str, Any]:
        """The machine that the workers run on (worker/host.py), and the engine's limits."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def prepare(self, manifest: FrameworkManifest, say: Say) -> Prepared:
        """Make the framework ready, or find it ready.

        Raise FrameworkUnavailable where this machine cannot have it, EngineError where making
        it failed.
        """

    def stop(self) -> None:
        """End every `prepare` and `run` under way in other threads; the engine does no more."""

    def run(
        self,
        prepared: Prepared,
        folder: Path,
        *,
        name: str,
        log: Path,
        deadline_s: float,
        on_line: OnLine,
    ) -> Outcome:
        """Run one worker on the trial in `folder`; standard error goes to `log`.

        Each line of its standard output is passed to `on_line` at once. Past `deadline_s` the
        worker is killed with all its processes; so it is when this call is interrupted. `name` is
        unique; a worker of that name that an earlier, killed orchestrator left is adopted where
        the engine can. Raise EngineLost where the engine went away and did not come back.
        """

    @property
    def worker_sha256(self) -> str:
        """The digest of the worker's code, for certificates."""
