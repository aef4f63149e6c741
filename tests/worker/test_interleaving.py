"""Interleaving of real processes."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from suite.protocol import trial_file
from suite.worker import interleaving
from suite.worker.interleaving import Turns
from suite.worker.protocol import Trial

WORKER = """
import sys, time
from pathlib import Path
from suite.worker.interleaving import Turns
folder, name = Path(sys.argv[1]), sys.argv[2]
count, startup_s = int(sys.argv[3]), float(sys.argv[4])
turn, log = Turns(folder), open(folder / "log", "a", buffering=1)
with turn:
    log.write(f"{name} starts\\n")
    time.sleep(startup_s)
for _ in range(count):
    with turn:
        log.write(f"{name} begins\\n")
        time.sleep(0.01)
        log.write(f"{name} ends\\n")
"""

TOGETHER = """
import sys
from types import SimpleNamespace
from suite.worker import interleaving
with interleaving.together(SimpleNamespace(paths={"interleaving": sys.argv[1]})):
    print("started", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return trial_file.make_interleaving(tmp_path / "interleaving", 2).folder


def start(folder: Path, name: str, count: int, startup_s: float = 0.2) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", WORKER, str(folder), name, str(count), str(startup_s)]
    return subprocess.Popen(command)


def lines(folder: Path) -> list[str]:
    log = folder / "log"
    return log.read_text().splitlines() if log.exists() else []


def test_two_workers_compute_strictly_in_turn(folder: Path) -> None:
    # The first worker holds its turn until the second one has started.
    workers = [start(folder, name, 20, startup_s=2) for name in "ab"]
    assert [worker.wait(60) for worker in workers] == [0, 0]
    logged = [line for line in lines(folder) if "starts" not in line]
    assert [line.split()[1] for line in logged] == ["begins", "ends"] * 40
    order = "".join(line[0] for line in logged[::2])
    assert order in ("ab" * 20, "ba" * 20)


def test_a_worker_that_dies_releases_its_turn_and_the_other_continues(folder: Path) -> None:
    dying, living = start(folder, "a", 10_000), start(folder, "b", 50)
    while not {"a ends", "b ends"} <= set(lines(folder)):
        time.sleep(0.01)
    dying.kill()
    assert living.wait(60) == 0
    dying.wait(60)
    assert lines(folder).count("b ends") == 50


def test_a_worker_that_ends_waits_for_running_workers_but_not_for_dead_ones(
    folder: Path,
) -> None:
    waiting, measuring = (
        subprocess.Popen(
            [sys.executable, "-c", TOGETHER, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(2)
    )
    for worker in (waiting, measuring):
        assert worker.stdout and worker.stdout.readline() == b"started\n"
    assert waiting.stdin and measuring.stdin
    waiting.stdin.close()
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(0.3)
    measuring.kill()
    assert waiting.wait(60) == 0
    measuring.wait(60)


def test_a_read_only_folder_is_sufficient(folder: Path) -> None:
    for path in (*folder.iterdir(), folder):
        path.chmod(0o500 if path.is_dir() else 0o400)
    with Turns(folder):
        pass


def test_a_worker_that_runs_alone_does_not_wait(trial: Trial) -> None:
    assert "interleaving" not in trial.paths
    with interleaving.of(trial):
        pass
