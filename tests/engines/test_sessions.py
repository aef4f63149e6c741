"""Locks that live exactly as long as their process, however it ends."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from suite.engines import sessions
from suite.errors import BusyError

HOLD = """
import sys, time
from suite import owners
with sessions.exclusive("refuse", print), sessions.session(sys.argv[1]) as place:
    (place / "file").touch()
    print("held", flush=True)
    time.sleep(600)
"""


@contextmanager
def another(session_id: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that is `session_id` and has the turn."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, session_id], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture(autouse=True)
def own_turn(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The turn of this test, not of the machine's real orchestrators."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)


def test_an_owner_lives_as_long_as_its_block() -> None:
    assert sessions.state("a") == "unknown"
    with sessions.session("a") as place:
        assert sessions.state("a") == "active" and place.is_dir()
    assert sessions.state("a") == "unknown" and not place.exists()


def test_one_that_keeps_or_fails_counts_as_dead_so_that_it_is_cleaned() -> None:
    with sessions.session("keeps", keep=True):
        pass
    with pytest.raises(KeyError), sessions.session("fails"):
        raise KeyError
    assert sessions.state("keeps") == sessions.state("fails") == "stale"
    assert sessions.remove_stale() == 2
    assert sessions.state("keeps") == "unknown"


def test_a_killed_owner_is_dead_at_once_and_can_be_taken_over() -> None:
    with another("b") as process:
        assert sessions.state("b") == "active"
        with pytest.raises(BusyError, match="under way in another dlsuite"), sessions.session("b"):
            pass
        assert sessions.remove_stale() == 0
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert sessions.state("b") == "stale"
    with sessions.session("b") as place:
        assert list(place.iterdir()) == []
    assert not place.exists()


def test_a_second_orchestrator_refuses_or_waits_as_it_was_told() -> None:
    said: list[str] = []
    with another("c") as process:
        with (
            pytest.raises(BusyError, match="another dlsuite is measuring"),
            sessions.exclusive("refuse", said.append),
        ):
            pass
        assert said == []
        threading.Timer(0.5, process.kill).start()
        begun = time.monotonic()
        with sessions.exclusive("wait", said.append):
            assert time.monotonic() - begun > 0.3
    assert said == ["another dlsuite is measuring on this machine; waiting for it to end"]
