"""Locks that last exactly as long as their process, however it ends."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from suite.engines import sessions
from suite.errors import BusyError

HOLD = """
import sys, time
from suite.engines import sessions
with sessions.measuring("refuse", print), sessions.session(sys.argv[1]) as folder:
    (folder / "file").touch()
    print("held", flush=True)
    time.sleep(600)
"""


@contextmanager
def another(session_id: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the session and the measuring lock."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, session_id], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture(autouse=True)
def separate_lock(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a measuring lock of this test, not that of the machine."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)


def test_a_session_is_active_during_its_block() -> None:
    assert sessions.state("a") == "unknown"
    with sessions.session("a") as folder:
        assert sessions.state("a") == "active" and folder.is_dir()
    assert sessions.state("a") == "unknown" and not folder.exists()


def test_a_session_that_keeps_or_fails_is_stale_and_can_be_removed() -> None:
    with sessions.session("keeps", keep=True):
        pass
    with pytest.raises(KeyError), sessions.session("fails"):
        raise KeyError
    assert sessions.state("keeps") == sessions.state("fails") == "stale"
    assert sessions.remove_stale(None) == 0  # no engine was cleaned
    assert sessions.state("keeps") == sessions.state("fails") == "stale"
    assert sessions.remove_stale("unix:///docker.sock") == 2
    assert sessions.state("keeps") == "unknown"


def test_a_session_of_several_engines_is_stale_until_all_of_them_are_clean() -> None:
    with sessions.session("several", keep=True, hosts=("ssh://a", "ssh://b")):
        pass
    for engine, state in {"ssh://c": "stale", "ssh://a": "stale", "ssh://b": "unknown"}.items():
        sessions.remove_stale(engine)
        assert sessions.state("several") == state


def test_the_session_of_a_killed_process_is_stale_at_once_and_can_be_held_again() -> None:
    with another("b") as process:
        assert sessions.state("b") == "active"
        with (
            pytest.raises(BusyError, match="another dlsuite is working on this run"),
            sessions.session("b"),
        ):
            pass
        assert sessions.remove_stale("unix:///docker.sock") == 0
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert sessions.state("b") == "stale"
    with sessions.session("b") as folder:
        assert list(folder.iterdir()) == []
    assert not folder.exists()


def test_a_second_measurement_refuses_or_waits() -> None:
    messages: list[str] = []
    with another("c") as process:
        with (
            pytest.raises(BusyError, match=f"since .*: dlsuite c, process {process.pid}, in /"),
            sessions.measuring("refuse", messages.append),
        ):
            pass
        assert messages == []
        threading.Timer(0.5, process.kill).start()
        started_s = time.monotonic()
        with sessions.measuring("wait", messages.append):
            assert time.monotonic() - started_s > 0.3
    (message,) = messages
    assert message.startswith("another dlsuite is measuring on this machine since ")
    assert message.endswith("; waiting for it to end")


def test_the_words_of_a_holder_that_has_ended_are_not_those_of_the_next(tmp_path: Path) -> None:
    with another("c"):
        pass
    path = tmp_path / "dlsuite-measuring.lock"
    assert "dlsuite c" in path.read_text()
    assert sessions._holder(path) == ""
    with sessions.measuring("refuse", print):
        pass
    assert path.read_text() == ""


def test_shared_measurements_run_beside_each_other_but_not_beside_one_alone() -> None:
    def hold(*, shared: bool) -> AbstractContextManager[None]:
        return sessions.measuring("refuse", print, shared=shared)

    with hold(shared=True):
        with hold(shared=True):
            pass
        with pytest.raises(BusyError), hold(shared=False):
            pass
    with hold(shared=False), pytest.raises(BusyError), hold(shared=True):
        pass
