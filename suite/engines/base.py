"""What an engine is to the rest of the suite."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from suite.manifest import FrameworkManifest

Event = dict[str, Any]
OnLine = Callable[[str], None]
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A framework that can be run: where, and what identifies it."""

    framework: str
    python: Path
    lock_sha256: str
    image_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a worker ended; what it said lies in the folder's results."""

    exit_code: int  # negative: the signal that killed it
    timed_out: bool


class FrameworkUnavailable(Exception):
    """This machine cannot run the framework, through no fault: its runs are skipped."""

    def __init__(self, reason: str, *, hint: str) -> None:
        super().__init__(reason)
        self.hint = hint


class Engine(Protocol):
    name: str

    def prepare(self, manifest: FrameworkManifest, say: Say) -> Prepared:
        """Make the framework ready, or find it ready.

        Raise FrameworkUnavailable where this machine cannot have it, EngineError where making
        it failed.
        """

    def stop(self) -> None:
        """End every `prepare` under way in another thread; the engine prepares no more."""

    def run(
        self, prepared: Prepared, folder: Path, *, log: Path, deadline_s: float, on_line: OnLine
    ) -> Outcome:
        """Run one worker on the trial in `folder`; standard error goes to `log`.

        Each line of its standard output is passed to `on_line` at once. Past `deadline_s` the
        worker is killed with all its processes; so it is when this call is interrupted.
        """

    @property
    def worker_sha256(self) -> str:
        """The digest of the worker's code, for certificates."""
