"""A machine from its launch to its verified end, with a `sky` that fails in each known way."""

import os
import re
import shutil
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from suite.cloud import adoption, commands, journal, machine
from suite.cloud.journal import Journal
from suite.cloud.machine import Machine, Outcome, must_be_free
from suite.cloud.task import Task
from suite.errors import BusyError, ResultsError
from suite.results import checksums, rental
from suite.worker.programs import Answer
from tests.cloud.test_offers import limits, offer

FAKE_SKY = Path(__file__).with_name("fake_sky.py")
RUN = "20261128-120000-quick"


class Sky:
    """The stub, and what it noted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def ill(self, *words: str) -> None:
        (self.folder / "ill").write_text(" ".join(words))

    def lie(self, times: int) -> None:
        (self.folder / "lies").write_text(str(times))

    @property
    def calls(self) -> list[str]:
        return [line.split()[0] for line in self.lines if not line.startswith(("status", "api s"))]

    @property
    def lines(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()

    @property
    def machines(self) -> list[str]:
        return [each.name for each in (self.folder / "machines").iterdir()]


@pytest.fixture
def sky(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sky:
    """`sky` and `rsync` on PATH; short intervals; a DLSUITE_HOME of this test."""
    folder, programs = tmp_path / "sky", tmp_path / "bin"
    for each in (folder / "machines", folder / "requests", folder / "remote", programs):
        each.mkdir(parents=True)
    _program(programs / "sky", f'exec {sys.executable} {FAKE_SKY} "$@"')
    _program(
        programs / "rsync",
        f'[ -n "$(ls {folder}/machines)" ] || {{ echo "ssh: no route" >&2; exit 255; }}\n'
        f'for last; do :; done; cp -r {folder}/remote/. "$last"',
    )
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_SKY", str(folder))
    monkeypatch.setenv("DLSUITE_HOME", str(tmp_path / "home"))
    for name, value in (("POLL_S", 0.02), ("STATUS_EVERY_S", 0.05), ("PULL_EVERY_S", 0.05)):
        monkeypatch.setattr(machine, name, value)
    monkeypatch.setattr(machine, "CHECK_EVERY_S", 0.01)
    return Sky(folder)


def _program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def task(**changes: object) -> Task:
    values = {"name": "dlsuite-quick-h100x1", "suite_name": "quick", "max_time": "1h"}
    return Task(offer=offer(2.0), limits=limits(), skypilot="0.14.1", **{**values, **changes})


def run(own: Journal | None = None) -> tuple[Journal, Outcome, list[str]]:
    messages: list[str] = []
    if own is None:
        must_be_free(task().name)
        own = Journal.new(task())
    return own, Machine(own, task(), messages.append).run(), messages


def events(own: Journal) -> list[str]:
    return [each.event for each in own.events if each.event != journal.PULLED]


def test_a_good_run_is_launched_pulled_ended_and_verified(sky: Sky) -> None:
    (sky.folder / f"remote/{RUN}").mkdir()
    own, outcome, _ = run()
    assert outcome == Outcome(code=0, reason=None, gone=True)
    assert sky.calls == ["launch", "down"] and not sky.machines
    # Three answers in a row without the machine, after the one before the launch.
    assert sum(line.startswith("status") for line in sky.lines) >= 4
    assert events(own)[0] == "launch" and events(own)[-3:] == ["ended", "down", "gone"]
    assert (own.folder / "dlsuite-results" / RUN).is_dir()
    assert not own.may_be_alive and own.events[-1].facts["cost"] >= 0
    assert rental.read(own.folder / "offer.json").price_per_hour == 2.0


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("no-capacity", r"sky launch: ResourcesUnavailableError: .* \(exit code 1\)"),
        ("setup-fails", r"RuntimeError: set-up failed \(exit code 1\)"),
        ("taken", r"the machine was preempted \(exit code 1\)"),
        ("job-fails", r"\(exit code 100\)"),
    ],
)
def test_a_launch_that_fails_leaves_nothing(sky: Sky, word: str, reason: str) -> None:
    sky.ill(word)
    own, outcome, _ = run()
    assert outcome.gone and re.search(reason, str(outcome.reason))
    assert not sky.machines and not own.may_be_alive


@pytest.mark.parametrize("word", ["never-up", "never-ends"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_in_each_phase_ends_the_machine(
    sky: Sky, word: str, number: signal.Signals
) -> None:
    sky.ill(word)

    def send() -> None:
        while not sky.machines or (word == "never-ends" and _status(sky) != "UP"):
            time.sleep(0.02)
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)  # a second one changes nothing

    sender = threading.Thread(target=send)
    sender.start()
    _, outcome, messages = run()
    sender.join()
    assert outcome == Outcome(code=None, reason="interrupted", gone=True, interrupted=True)
    assert sky.calls == ["launch", "api", "down"]  # the request is cancelled first
    assert not sky.machines and any("ended before dlsuite stops" in each for each in messages)


def _status(sky: Sky) -> str:
    return next((sky.folder / "machines").iterdir()).read_text()


@pytest.mark.parametrize(
    ("word", "limit", "reason"),
    [
        ("never-up", "PROVISION_S", "provisioning took more than"),
        ("never-ends", "END_S", "the time limits of provisioning, set-up and run are over"),
    ],
)
def test_a_limit_of_time_ends_the_machine(
    sky: Sky, monkeypatch: pytest.MonkeyPatch, word: str, limit: str, reason: str
) -> None:
    sky.ill(word)
    monkeypatch.setattr(machine, limit, 0.3 if limit == "PROVISION_S" else limits().paid_s - 1.0)
    _, outcome, _ = run()
    assert outcome.gone and outcome.reason and outcome.reason.startswith(reason)
    assert sky.calls == ["launch", "api", "down"] and not sky.machines


def test_a_down_that_says_done_is_repeated(sky: Sky) -> None:
    sky.lie(2)
    _, outcome, messages = run()
    assert outcome.gone and sky.calls.count("down") == 3 and not sky.machines
    assert sum("it is not gone" in each for each in messages) == 2


@pytest.mark.parametrize("word", ["down-fails", "status-late"])
def test_a_machine_that_cannot_be_ended_is_left(sky: Sky, word: str) -> None:
    own = Journal.new(task())
    made = Machine(own, task(), lambda text: None)
    (sky.folder / "machines" / task().name).write_text("UP")
    own.write(journal.LAUNCH)
    sky.ill("down-fails" if word == "down-fails" else "status-fails")
    assert not made.end(None, "test")
    assert own.may_be_alive and events(own)[-1] == "left"


@pytest.mark.parametrize("word", ["status-fails", "status-empty", "status-html", "status-half"])
def test_without_an_answer_nothing_is_launched(sky: Sky, word: str) -> None:
    sky.ill(word)
    with pytest.raises(BusyError, match="SkyPilot does not list its machines"):
        run()
    assert "launch" not in sky.calls


def test_a_machine_of_the_same_name_is_refused(sky: Sky) -> None:
    (sky.folder / "machines" / task().name).write_text("UP")
    with pytest.raises(BusyError, match="may be alive"):
        run()
    (sky.folder / "machines" / task().name).unlink()
    Journal.new(task()).write(journal.LAUNCH)  # of a process that was killed
    with pytest.raises(BusyError, match="may be alive"):
        run()
    assert len(journal.journals()) == 1  # what is refused leaves no folder


def test_the_end_goes_on_where_the_journal_cannot_be_written(
    sky: Sky, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Journal.new(task())
    write: Callable[..., None] = Journal.write

    def full(self: Journal, event: str, **facts: object) -> None:
        if event != journal.LAUNCH:
            raise OSError(28, "No space left on device")
        write(self, event, **facts)

    monkeypatch.setattr(Journal, "write", full)
    _, outcome, messages = run(own)
    assert outcome.gone and not sky.machines
    assert any("No space left" in each for each in messages)


def test_results_are_adopted_with_the_papers_and_their_digests(sky: Sky, tmp_path: Path) -> None:
    remote = sky.folder / f"remote/{RUN}"
    remote.mkdir()
    (remote / "plan.json").write_text("{}")
    checksums.write(remote)
    own, _, _ = run()
    [folder] = adoption.adopt(own, tmp_path / "results")
    assert folder == tmp_path / "results" / RUN
    names = {f"cloud/{each}" for each in ("task.yaml", "offer.json", "events.jsonl")}
    assert names <= set(checksums.read(folder) or {})
    assert (tmp_path / "results/latest").resolve() == folder
    assert adoption.adopt(own, tmp_path / "results") == [folder]  # a second time
    (folder / "plan.json").write_text("another")
    with pytest.raises(ResultsError, match="is another run"):
        adoption.adopt(own, tmp_path / "results")


def test_a_killed_client_leaves_a_journal_that_names_the_machine(sky: Sky) -> None:
    own = Journal.new(task())
    own.write(journal.LAUNCH)
    assert journal.open_journals() == [own] and not own.is_held
    assert own.name == task().name and own.task == task()
    with (own.folder / journal.EVENTS).open("a") as file:
        file.write('{"time": "2026')  # cut off
    assert events(own) == ["launch"]
    with own.held(), pytest.raises(BusyError), own.held():
        pass


def test_a_reply_with_another_form_is_unknown(sky: Sky, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(sky.folder / "machines")
    (sky.folder / "machines").mkdir()
    monkeypatch.setattr(commands, "_sky", lambda *a, **k: Answer('[{"id": 1}]'))
    with pytest.raises(commands.Unknown, match="a Cluster without name"):
        commands.clusters()
