"""Workers that outlive a killed dlsuite."""

import subprocess
import sys
from pathlib import Path

import pytest

from suite.engines import sessions
from suite.engines.venv import orphans


def worker(session_id: str, *arguments: str) -> subprocess.Popen[bytes]:
    """A process in a folder of the session, as the venv engine starts it."""
    folder = sessions.work_folder(session_id) / "run" / "trial"
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-c", "import time; time.sleep(60)", *arguments, str(folder)]
    return subprocess.Popen(command, cwd=folder, start_new_session=True)


def test_workers_of_stale_sessions_are_ended_and_those_of_active_ones_are_not(home: Path) -> None:
    messages: list[str] = []
    with sessions.session("stale", keep=True):
        pass
    with sessions.session("active"), sessions.session("own"):
        stale, active, own = map(worker, ("stale", "active", "own"))
        try:
            orphans.end("other", messages.append)
            assert stale.wait(10) and active.poll() is None and own.poll() is None
            orphans.end("own", messages.append)
            assert own.wait(10) and active.poll() is None
            orphans.end("own", messages.append)
        finally:
            for process in (stale, active, own):
                process.kill()
                process.wait()
    assert messages == ["ended 1 workers of runs that were killed"] * 2


def test_a_shell_in_the_folder_of_a_stale_session_is_not_ended(home: Path) -> None:
    with sessions.session("stale", keep=True):
        pass
    folder = sessions.work_folder("stale")
    folder.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], cwd=folder, stdin=subprocess.PIPE
    ) as shell:
        orphans.end("own", pytest.fail)
        assert shell.poll() is None
        assert shell.communicate(b"\n") == (None, None)
    assert shell.returncode == 0
