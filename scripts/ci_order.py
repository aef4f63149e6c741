"""The order of CI's long items: what changed, then a quarter that turns with each submission.

`python scripts/ci_order.py MINUTES` prints a line for each item: its estimate in minutes, a tab,
its command. MINUTES is the time that is left.

Guarantee: in four submissions whose turns follow each other, every item is started, whatever
changed. Its conditions: the items of a quarter and their quarters stay the same; the estimates of
the quarter fit into the time; no item takes longer than its estimate.
"""

from __future__ import annotations

import subprocess
import sys
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent
TURN = ".ci/turn"
QUARTERS = 4
PYTEST = ".venv/bin/python -m pytest -m verify "
SELFTEST = ".venv/bin/dlsuite selftest --framework "
WITHOUT_PROOF = ("flux", "cntk")  # CI has no Julia registry, and no Python 3.6
OTHER = 4.0  # minutes of an item without an estimate
# Estimated minutes and quarter, on two cores with images at hand. What is absent has OTHER, and a
# quarter by its name. A quarter never moves, so that a change of the table skips no other item.
TABLE = {
    PYTEST + "tests/engines/venv": (5, 0),
    PYTEST + "tests/engines/slurm": (4, 1),
    PYTEST + "tests/engines/docker": (3, 2),
    PYTEST + "tests/engines/cdi": (4, 0),
    PYTEST + "tests/engines/others": (2, 2),
    PYTEST + "tests/worker": (7, 3),
    PYTEST + "tests/cloud": (7, 3),
    PYTEST + "tests/importing": (4, 3),
    PYTEST + "tests/runner": (12, 2),
    PYTEST + "tests/cli": (11, 3),
    PYTEST + "tests/parity": (23, 1),
    PYTEST + "tests/scripts": (2, 0),
    PYTEST + "tests/report": (2, 3),
    PYTEST + "tests/test_*.py": (1, 2),
    PYTEST + "tests/engines/test_*.py": (1, 2),
    PYTEST + "tests/datasets": (1, 0),
    PYTEST + "tests/manifests": (0.2, 1),
    PYTEST + "tests/models": (0.2, 2),
    PYTEST + "tests/protocol": (0.2, 3),
    PYTEST + "tests/results": (0.2, 0),
    SELFTEST + "pytorch": (34, 0),
    SELFTEST + "tensorflow": (9, 1),
    SELFTEST + "jax": (7, 2),
    SELFTEST + "mxnet": (6, 3),
    SELFTEST + "keras": (3, 2),
    SELFTEST + "paddle": (2, 3),
    "make parity-bfloat16": (10, 1),
    "make parity-inference": (6, 3),
    "make parity-ranks": (5, 2),
    "make parity-small-caffe": (10, 2),
    "make parity-small-theano": (7, 1),
    "make parity-small-mxnet": (2, 2),
    "make parity-small-tensorflow": (2, 3),
    "make parity-small-keras": (3, 3),
    "make parity-small-pytensor": (12, 2),
    "make parity-small-cudnn": (0.2, 1),
    "make parity-small-onednn": (2, 0),
    "make parity-small-onnxruntime": (0.5, 0),
    "make parity-small-openvino": (0.5, 0),
    "make parity-small-paddle": (2, 0),
    "make parity-small-pytorch": (2, 0),
    "make parity-small-jax": (2, 1),
}


@dataclass(frozen=True, kw_only=True)
class Item:
    """A command, its estimate, and its quarter."""

    command: str
    minutes: float
    quarter: int  # 0 to 3
    paths: tuple[str, ...]  # it tests what begins with one of these


def order(
    items: Sequence[Item], *, turn: int, changed: Iterable[str], minutes: float
) -> list[Item]:
    """All items, in the order in which CI runs them; `minutes` is the time that is left.

    Changed items of other quarters come first only while the turn's quarter still fits behind
    them by the estimates. The quarter that ran longest ago follows the turn's.
    """
    files = tuple(changed)
    touched = [each for each in items if any(name.startswith(each.paths) for name in files)]
    mine = [each for each in items if each.quarter == turn % QUARTERS]
    free = minutes - sum(each.minutes for each in mine)
    first = []
    for each in sorted(touched, key=lambda item: item.minutes):
        cost = 0.0 if each in mine else each.minutes
        if cost == 0.0 or cost <= free:
            free -= cost
            first.append(each)
    waiting = sorted(items, key=lambda item: (item.quarter - turn) % QUARTERS)
    return [*first, *(each for each in waiting if each not in first)]


def items_of(repository: Path, *, models: Sequence[str]) -> list[Item]:
    """The long tests by folder, the self-test by framework, and the proofs."""
    tests = repository / "tests"
    folders = [each.parent for each in tests.glob("*/__init__.py") if each.parent.name != "engines"]
    engines = [each.parent for each in tests.glob("engines/*/__init__.py")]
    names = [str(each.relative_to(tests)) for each in (*folders, *engines)]
    trained = [name.removeprefix(SELFTEST) for name in TABLE if name.startswith(SELFTEST)]
    frameworks = [
        each.name
        for each in (repository / "suite/worker/frameworks").glob("[a-z]*")
        if each.is_dir() and each.name not in WITHOUT_PROOF
    ]
    worker = "suite/worker/frameworks/"
    return [
        *(_item(f"{PYTEST}tests/{name}", f"tests/{name}/", f"suite/{name}/") for name in names),
        _item(PYTEST + "tests/engines/test_*.py", "tests/engines/test_", "suite/engines/"),
        _item(PYTEST + "tests/test_*.py", "tests/test_", "pyproject.toml"),
        *(_item(SELFTEST + name, f"{worker}{name}/", "suite/runner/selftest/") for name in trained),
        _item("make parity-inference", "suite/parity/answers", "suite/worker/inference"),
        _item("make parity-ranks", "suite/worker/ranks"),
        _item("make parity-bfloat16", "suite/parity/tolerances"),
        *(
            _item(f"make parity-small-{name}", f"{worker}{name}/", f"docker/{name}/")
            for name in sorted(frameworks)
        ),
        *(_item(f"make parity-large-{name}", *_files(name)) for name in models),
    ]


def turn_of(repository: Path) -> tuple[int, list[str]]:
    """The turn, and the files that changed since the change of its file before the last one."""
    number = int((repository / TURN).read_text(encoding="utf-8"))
    commits = _git(repository, "log", "--first-parent", "--format=%H", "-2", "--", TURN)
    if not commits:
        return number, []
    later = _git(repository, "rev-list", "--first-parent", f"{commits[0]}..HEAD")
    return number + len(later), _git(repository, "diff", "--name-only", commits[-1], "HEAD")


def _item(command: str, *paths: str) -> Item:
    minutes, quarter = TABLE.get(command, (OTHER, zlib.crc32(command.encode()) % QUARTERS))
    return Item(command=command, minutes=minutes, quarter=quarter, paths=paths)


def _files(model: str) -> tuple[str, ...]:
    """The file of a model: vit_tiny_cifar10 is in vit_tiny.py, gpt_mini in gpt.py."""
    parts = model.split("_")
    return tuple(f"suite/models/{'_'.join(parts[:size])}.py" for size in range(1, len(parts) + 1))


def _git(repository: Path, *arguments: str) -> list[str]:
    """The lines that git prints; none outside a repository."""
    done = subprocess.run(
        ["git", "-C", str(repository), *arguments], check=False, capture_output=True, text=True
    )
    return done.stdout.splitlines()


def main(minutes: float) -> None:
    made = subprocess.run(
        ["make", "--silent", "large-models"], check=True, capture_output=True, text=True
    )
    turn, changed = turn_of(REPOSITORY)
    items = items_of(REPOSITORY, models=made.stdout.split())
    for item in order(items, turn=turn, changed=changed, minutes=minutes):
        print(f"{item.minutes:g}\t{item.command}")


if __name__ == "__main__":
    main(float(sys.argv[1]))
