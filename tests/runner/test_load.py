"""Other busy processes of this machine are named; those of dlsuite are not."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from suite.runner.load import Load, named

SPIN = "import time; end = time.monotonic() + 30\nwhile time.monotonic() < end: pass"


def test_a_busy_process_of_another_session_is_named_and_a_worker_is_not(tmp_path: Path) -> None:
    """Both are started by a shell that ends, so neither is a child of this process."""
    script = tmp_path / "neighbour.sh"
    worker = [sys.executable, "-c", SPIN, "suite.worker"]
    script.write_text(
        f"setsid {sys.executable} -c '{SPIN}' >/dev/null 2>&1 & echo $!\n"
        f"setsid {worker[0]} -c '{SPIN}' suite.worker >/dev/null 2>&1 & echo $!\n",
        encoding="utf-8",
    )
    started = subprocess.run(["sh", script], stdout=subprocess.PIPE, text=True, check=True)
    pids = [int(each) for each in started.stdout.split()]
    try:
        time.sleep(0.2)
        load, found, end = Load(), set(), time.monotonic() + 20
        while pids[0] not in found and time.monotonic() < end:  # a busy machine may take long
            time.sleep(0.3)
            found |= {each.pid for each in load.look()}
    finally:
        for pid in pids:
            os.kill(pid, 9)
    assert pids[0] in found
    assert pids[1] not in found


def test_this_process_and_its_children_are_not_named() -> None:
    child = subprocess.Popen([sys.executable, "-c", SPIN])
    try:
        load = Load()
        end = time.monotonic() + 0.4
        while time.monotonic() < end:
            pass
        found = {each.pid for each in load.look()}
    finally:
        child.kill()
        child.wait()
    assert found.isdisjoint({child.pid, os.getpid()})


def test_a_name_with_parentheses_and_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    folder = tmp_path / "7"
    folder.mkdir()
    (folder / "cmdline").write_bytes(b"x")
    rest = b") S 1 7 7 0 -1 0 0 0 0 0 %d 0 0 0 20 0 1 0 0"
    (folder / "stat").write_bytes(b"7 (a) (\xff" + rest % 100)
    load = Load(tmp_path)
    (folder / "stat").write_bytes(b"7 (a) (\xff" + rest % 9_000_000)
    (neighbour,) = load.look()
    assert neighbour.name == "a) (�"
    assert named([neighbour]).startswith("a) (� (7, ")
