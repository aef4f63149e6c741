"""The order of CI's long items: four submissions run everything, whatever changed."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.ci_order import REPOSITORY, TURN, Item, items_of, order, turn_of

ITEMS = items_of(REPOSITORY, models=("alexnet", "vit_tiny_cifar10", "gpt_mini"))
QUARTER = max(sum(i.minutes for i in ITEMS if i.quarter == q) for q in range(4))


def run(ordered: list[Item], minutes: float) -> set[str]:
    """The commands that finish in this time, each in its estimate."""
    finished = set()
    for item in ordered:
        minutes -= item.minutes
        if minutes < -1e-9:
            break
        finished.add(item.command)
    return finished


@pytest.mark.parametrize("seed", range(20))
def test_four_submissions_run_every_item_whatever_changed(seed: int) -> None:
    chance = random.Random(seed)
    start, minutes = chance.randrange(100), QUARTER + chance.choice((0, 3, 20))
    done: set[str] = set()
    for turn in range(start, start + 4):
        paths = [path for item in ITEMS for path in item.paths]
        changed = chance.sample(paths, chance.randrange(len(paths)))
        done |= run(order(ITEMS, turn=turn, changed=changed, minutes=minutes), minutes)
    assert done == {item.command for item in ITEMS}


def test_each_quarter_fits_into_the_time_that_images_and_tests_leave() -> None:
    assert QUARTER <= 60


def test_what_changed_comes_first_while_the_quarter_still_fits() -> None:
    changed = ["suite/worker/frameworks/mxnet/session.py", "suite/models/vit_tiny.py"]
    wanted = {"make parity-small-mxnet", "make parity-large-vit_tiny_cifar10"}
    roomy = order(ITEMS, turn=0, changed=changed, minutes=QUARTER + 60)
    assert wanted <= {item.command for item in roomy[:9]}
    tight = order(ITEMS, turn=0, changed=changed, minutes=0)
    mine = sum(item.quarter == 0 for item in ITEMS)
    assert {item.quarter for item in tight[:mine]} == {0}


def test_each_item_comes_once_and_the_longest_waiting_quarter_after_the_turns() -> None:
    found = order(ITEMS, turn=2, changed=[], minutes=60)
    assert sorted(i.command for i in found) == sorted(i.command for i in ITEMS)
    assert list(dict.fromkeys(item.quarter for item in found)) == [2, 3, 0, 1]


def test_the_turn_is_its_number_and_the_later_commits(tmp_path: Path) -> None:
    def commit(name: str, text: str) -> None:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        git("add", ".")
        git("-c", "user.name=x", "-c", "user.email=x", "commit", "-qm", name)

    def git(*arguments: str) -> None:
        subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True)

    git("init", "-q")
    commit(TURN, "7\n")
    commit("a", "")
    assert turn_of(tmp_path) == (8, ["a"])
    commit(TURN, "8\n")
    assert turn_of(tmp_path) == (8, [TURN, "a"])


def test_the_script_prints_minutes_and_commands() -> None:
    command = [sys.executable, "scripts/ci_order.py", "60"]
    text = subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True)
    lines = [line.split("\t") for line in text.stdout.splitlines()]
    assert ["10", "make parity-bfloat16"] in lines and all(len(line) == 2 for line in lines)
