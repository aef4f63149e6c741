"""Real processes that take turns."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from suite.worker.turns import Turns

from suite.protocol import trial_file
from suite.worker import turns

WORKER = """
import sys, time
from pathlib import Path
from suite.worker.turns import Turns
folder, name = Path(sys.argv[1]), sys.argv[2]
count, startup_s = int(sys.argv[3]), float(sys.argv[4])
turns, log = Turns(folder), open(folder / "log", "a", buffering=1)
with turns:
    log.write(f"{name} starts\\n")
    time.sleep(startup_s)
for _ in range(count):
    with turns:
        log.write(f"{name} begins\\n")
        time.sleep(0.01)
        log.write(f"{name} ends\\n")
"""

TOGETHER = """
import sys
from types import SimpleNamespace
from suite.worker import turns
with turns.together(SimpleNamespace(paths={"turns": sys.argv[1]})):
    print("begun", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return trial_file.make_interleaving(tmp_path / "turns", 2).folder


def start(folder: Path, name: str, count: int, startup_s: float = 0.2) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", WORKER, str(folder), name, str(count), str(startup_s)]
    return subprocess.Popen(command)


def lines(folder: Path) -> list[str]:
    log = folder / "log"
    return log.read_text().splitlines() if log.exists() else []


def test_two_compute_one_after_the_other_strictly_in_turn(folder: Path) -> None:
    # The first to start keeps its turn until both have come, so both are there from then on.
    workers = [start(folder, name, 20, startup_s=2) for name in "ab"]
    assert [worker.wait(60) for worker in workers] == [0, 0]
    said = [line for line in lines(folder) if "starts" not in line]
    assert [line.split()[1] for line in said] == ["begins", "ends"] * 40
    order = "".join(line[0] for line in said[::2])
    assert order in ("ab" * 20, "ba" * 20)


def test_who_dies_gives_up_its_turn_and_who_is_left_goes_on(folder: Path) -> None:
    dying, living = start(folder, "a", 10_000), start(folder, "b", 50)
    while not {"a ends", "b ends"} <= set(lines(folder)):
        time.sleep(0.01)
    dying.kill()
    assert living.wait(60) == 0
    dying.wait(60)
    assert lines(folder).count("b ends") == 50


def test_who_has_measured_enough_waits_for_the_others_but_not_for_the_dead(folder: Path) -> None:
    waiting, measuring = (
        subprocess.Popen(
            [sys.executable, "-c", TOGETHER, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(2)
    )
    for worker in (waiting, measuring):
        assert worker.stdout and worker.stdout.readline() == b"begun\n"
    assert waiting.stdin and measuring.stdin
    waiting.stdin.close()
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(0.3)
    measuring.kill()
    assert waiting.wait(60) == 0
    measuring.wait(60)


def test_a_folder_that_cannot_be_written_will_do(folder: Path) -> None:
    for path in (*folder.iterdir(), folder):
        path.chmod(0o500 if path.is_dir() else 0o400)
    with Turns(folder):
        pass


def test_who_is_alone_waits_for_nobody(trial: turns.Trial) -> None:
    assert "turns" not in trial.paths
    with turns.of(trial):
        pass
