"""The journal of a machine: what was done with it, and when; and the machines that may be alive.

Each machine has a folder in DLSUITE_HOME, so that it is found from everywhere, after a crash too.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from suite import locks
from suite.cloud.task import RESULTS, Task
from suite.errors import BusyError
from suite.paths import home, write_atomically

EVENTS, TASK, LOCK, LOG = "events.jsonl", "task.json", ".lock", "provision.log"
# Events, in this order; `left` in place of `gone` where the machine could not be ended.
LAUNCH, IS_UP, PULLED, ENDED = "launch", "up", "pulled", "ended"
DOWN, GONE, LEFT = "down", "gone", "left"


@dataclass(frozen=True, kw_only=True)
class Event:
    """A line of the journal."""

    time: datetime
    event: str
    facts: dict[str, Any]


@dataclass(frozen=True)
class Journal:
    """The folder of a machine."""

    folder: Path

    @classmethod
    def new(cls, task: Task) -> Journal:
        """Write the task into a new folder; raise OSError where that fails."""
        now = datetime.now(UTC).strftime("%Y%m%d-%H%M%S%f")
        journal = cls(_root() / f"{now}-{task.name}")
        journal.folder.mkdir(parents=True)
        write_atomically(journal.folder / TASK, task.model_dump_json(indent=1) + "\n")
        return journal

    def take_results(self, other: Journal) -> None:
        """Copy the runs that were pulled from another machine: this one finishes them."""
        shutil.copytree(other.folder / RESULTS, self.folder / RESULTS, symlinks=True)

    def write(self, event: str, **facts: Any) -> None:
        """Append an event, and wait until it is on the disk; raise OSError where that fails."""
        line = json.dumps({"time": datetime.now(UTC).isoformat(), "event": event, **facts})
        with (self.folder / EVENTS).open("a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())

    @property
    def events(self) -> list[Event]:
        """The events, without a last line that was cut off."""
        found = []
        with suppress(OSError):
            for line in (self.folder / EVENTS).read_text(encoding="utf-8").splitlines():
                with suppress(ValueError, KeyError):
                    facts = json.loads(line)
                    time = datetime.fromisoformat(facts.pop("time"))
                    found.append(Event(time=time, event=facts.pop("event"), facts=facts))
        return found

    @property
    def task(self) -> Task | None:
        """What the machine was rented for; None where the file is damaged."""
        with suppress(OSError, ValidationError):
            return Task.model_validate_json((self.folder / TASK).read_text(encoding="utf-8"))
        return None

    @property
    def name(self) -> str:
        """The name of the machine."""
        return self.folder.name.split("-", 2)[2]

    @property
    def may_be_alive(self) -> bool:
        """Whether the machine was launched, and is not verified to be gone."""
        events = [each.event for each in self.events]
        return LAUNCH in events and GONE not in events

    def hours(self) -> float:
        """From the launch until the machine is gone, or now; 0 where the clock was set back."""
        events = self.events
        start = next((each.time for each in events if each.event == LAUNCH), None)
        if start is None:
            return 0.0
        end = next((each.time for each in events if each.event == GONE), datetime.now(UTC))
        return max(0.0, (end - start).total_seconds() / 3600)

    @contextmanager
    def held(self) -> Iterator[None]:
        """This process has the machine during the block; BusyError where another one has it."""
        path = self.folder / LOCK
        descriptor = locks.opened(path)
        try:
            if not locks.try_lock(descriptor, path):
                raise BusyError(
                    f"another dlsuite has the machine {self.name}", hint="dlsuite cloud status"
                )
            yield
        finally:
            os.close(descriptor)

    @property
    def is_held(self) -> bool:
        """Whether a process has the machine now."""
        try:
            with self.held():
                return False
        except BusyError:
            return True


def journals() -> list[Journal]:
    """All machines that were ever rented, the newest last."""
    folders = sorted(_root().glob(f"*/{TASK}"))
    return [Journal(each.parent) for each in folders]


def open_journals() -> list[Journal]:
    """The machines that may be alive."""
    return [each for each in journals() if each.may_be_alive]


def _root() -> Path:
    return home() / "cloud"
