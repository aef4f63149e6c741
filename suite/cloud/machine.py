"""One rented machine, from its launch until it is verified to be gone.

Whatever happens, the machine is ended: SIGINT, SIGTERM and SIGHUP only ask for the end, and the
end itself is not interrupted. A process that is killed ends nothing; then the machine's own nets
hold (suite/cloud/task.py), and `dlsuite cloud status` names the machine.
"""

from __future__ import annotations

import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite.cloud import commands, journal
from suite.cloud.commands import Unknown
from suite.cloud.journal import Journal
from suite.cloud.offers import END_S, PROVISION_S
from suite.cloud.task import RESULTS, TASK, Task
from suite.errors import BusyError
from suite.messages import Notify

POLL_S, STATUS_EVERY_S, PULL_EVERY_S = 1.0, 15.0, 60.0
CHECKS, CHECK_EVERY_S, DOWNS = 3, 10.0, 5  # until a machine counts as gone, or as left
CLOSE_S = 10  # for `sky launch` after its request is cancelled
ERROR = re.compile("error|exception|failed", re.IGNORECASE)
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")  # of colors
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a machine ended."""

    code: int | None  # of `sky launch`; None: it was stopped
    reason: str | None  # why it was stopped or failed
    gone: bool  # verified
    interrupted: bool = False


class Machine:
    """A machine that runs a task."""

    def __init__(self, own: Journal, task: Task, notify: Notify) -> None:
        self._journal, self._task, self._notify = own, task, notify
        self._folder, self._name = own.folder, task.name
        self._up = False

    def run(self) -> Outcome:
        """Launch the machine, wait for its job, pull its results, and end it.

        Raise OSError where the journal cannot be written before the launch.
        """
        self._task.write(self._folder)
        with self._journal.held(), _asked_to_stop(self._notify) as stop:
            self._journal.write(journal.LAUNCH, name=self._name, place=self._task.offer.place)
            with (self._folder / journal.LOG).open("ab") as log:
                process = commands.launch(self._name, self._folder / TASK, log)
                reason = "dlsuite failed"
                try:
                    reason = self._watch(process, stop) or ""
                finally:
                    gone = self.end(process, reason)
        code = process.returncode if not reason else None
        if code:
            reason = f"sky launch: {_last_line(self._folder / journal.LOG)} (exit code {code})"
        return Outcome(code=code, reason=reason or None, gone=gone, interrupted=stop.is_set())

    def _watch(self, process: subprocess.Popen[bytes], stop: threading.Event) -> str | None:
        """Wait for the end of the job; why it is not waited for any longer, or None."""
        start = asked = pulled = time.monotonic()
        self._notify(f"{self._name}: launching at {self._task.offer.place}")
        while process.poll() is None:
            if stop.wait(POLL_S):
                return "interrupted"
            now = time.monotonic()
            if not self._up and now - asked >= STATUS_EVERY_S:
                self._look()
                asked = time.monotonic()
            if not self._up and now - start > PROVISION_S:
                return f"provisioning took more than {PROVISION_S / 60:g} minutes"
            if now - start > self._task.limits.paid_s - END_S:
                return "the time limits of provisioning, set-up and run are over"
            if self._up and now - pulled >= PULL_EVERY_S:
                self.pull()
                pulled = time.monotonic()
        return None

    def _look(self) -> None:
        with suppress(Unknown):
            found = {each.name: each.status for each in commands.clusters()}
            if found.get(self._name) == commands.UP:
                self._up = True
                self._write(journal.IS_UP)
                self._notify(f"{self._name}: up; set-up and run follow")

    def pull(self) -> str | None:
        """Copy the results to this machine; the reason where that fails."""
        problem = commands.pull(self._name, self._folder / RESULTS)
        if not problem:
            runs = {path.resolve().name for path in (self._folder / RESULTS).iterdir()}
            self._write(journal.PULLED, runs=sorted(runs))
        return problem

    def end(self, process: subprocess.Popen[bytes] | None, reason: str) -> bool:
        """Stop the launch, pull the results, end the machine; return whether it is gone."""
        if process is None or process.poll() is None:
            if problem := commands.cancel(self._name):
                self._notify(f"{self._name}: the launch is not cancelled: {problem}")
            _close(process)
        self._write(journal.ENDED, reason=reason, code=process.returncode if process else None)
        if problem := self.pull():
            self._notify(f"{self._name}: no results: {problem}")
        for _ in range(DOWNS):
            self._notify(f"{self._name}: ending the machine")
            self._write(journal.DOWN)
            problem = commands.down(self._name)
            if self._is_gone():
                self._write(journal.GONE, cost=round(self._cost(), 4))
                return True
            self._notify(f"{self._name}: it is not gone{': ' if problem else ''}{problem or ''}")
        self._write(journal.LEFT)
        return False

    def _is_gone(self) -> bool:
        """Whether SkyPilot, after it asked the providers, lists no machine of this name."""
        for number in range(CHECKS):
            if number:
                time.sleep(CHECK_EVERY_S)
            try:
                if self._name in {each.name for each in commands.clusters()}:
                    return False
            except Unknown:
                return False
        return True

    def _cost(self) -> float:
        return self._journal.hours() * (self._task.limits.price(self._task.offer) or 0)

    def _write(self, event: str, **facts: Any) -> None:
        """Note an event; a full disk must not hinder the end of the machine."""
        try:
            self._journal.write(event, **facts)
        except OSError as error:
            self._notify(f"{self._folder}: {error.strerror}")


def must_be_free(name: str) -> None:
    """Raise BusyError where a machine of this name is alive, or may be."""
    known = [each for each in journal.open_journals() if each.name == name]
    try:
        listed = any(each.name == name for each in commands.clusters())
    except Unknown as error:
        raise BusyError(
            f"SkyPilot does not list its machines: {error}", hint="sky status"
        ) from None
    if known or listed:
        raise BusyError(f"a machine {name} may be alive", hint=f"dlsuite cloud down {name}")


@contextmanager
def _asked_to_stop(notify: Notify) -> Iterator[threading.Event]:
    """An event that a signal sets; the signals do nothing else during the block."""
    stop = threading.Event()

    def ask(number: int, frame: object) -> None:
        stop.set()
        notify("the machine is ended before dlsuite stops; this takes a minute or more")

    before = {each: signal.getsignal(each) for each in SIGNALS}
    for each, handler in before.items():
        if handler is not signal.SIG_IGN:  # as under nohup
            signal.signal(each, ask)
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _close(process: subprocess.Popen[bytes] | None) -> None:
    if process is None:
        return
    for end in (process.terminate, process.kill):
        end()
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=CLOSE_S)
            return


def _last_line(log: Path) -> str:
    """The last line that names an error, or the last one."""
    with suppress(OSError):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        lines = [line.strip() for line in lines if line.strip()]
        last = next((line for line in reversed(lines) if ERROR.search(line)), None)
        return ESCAPES.sub("", last or next(reversed(lines), "no output"))
    return "no output"
