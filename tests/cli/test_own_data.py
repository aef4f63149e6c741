"""Data of the user from a file to a proven table: numbers as targets, several labels, weights."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from suite.results import store
from suite.results.record import Record
from tests.cli.test_cli import dlsuite

pytestmark = pytest.mark.verify
SHORT = {"block_s": 0.05, "max_warmup_blocks": 3, "min_measure_s": 0.1, "max_measure_s": 0.2}
SUITE: dict[str, Any] = {
    "name": "mine",
    "title": "my own data",
    "seed": 1,
    "repeats": {"at_least": 1, "at_most": 1},
    "deadline_s": 300,
    "peak": False,
    "tracks": ["equal"],
    "frameworks": ["pytorch", "mxnet"],
    "measure": {**SHORT, "min_query_s": 0.2, "min_queries": 100, "max_query_s": 1},
}
TRAINING = {"batch_size": 16, "optimizer": {"name": "sgd", "learning_rate": 0.05}, "epochs": 4}


def records(folder: Path, workload: dict[str, Any]) -> list[Record]:
    """The records of a run of the suite with one workload."""
    (folder / "mine.yaml").write_text(yaml.safe_dump({**SUITE, "workloads": [workload]}))
    reply = dlsuite("run", "mine.yaml", folder=folder)
    assert reply.returncode == 0, reply.stderr
    found = store.read(folder / "results/latest")
    assert len(found) == 2 and all(each.parity.proven for each in found)
    return found


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Path]:
    """A table whose price is a function of its other columns."""
    random = np.random.default_rng(2)
    area, rooms = random.uniform(20, 200, 400), random.integers(1, 6, 400)
    price = 3.5 * area + 20 * rooms + random.normal(size=400)
    rows = zip(area, rooms, price, area > 100, rooms > 2, strict=True)
    path = tmp_path / "flats.csv"
    path.write_text(
        "area,rooms,price,large,many\n"
        + "".join(f"{a:.2f},{b},{c:.2f},{int(d)},{int(e)}\n" for a, b, c, d, e in rows)
    )
    yield path


def test_numbers_as_targets_are_trained_and_proven(table: Path, tmp_path: Path) -> None:
    data = {"path": "flats.csv", "target": "price"}
    first, second = records(tmp_path, {"dataset": data, **TRAINING})
    for record in (first, second):
        assert record.epochs[-1].test_accuracy is None
        assert record.epochs[-1].test_loss < 0.1  # 1 is the error of the mean
    assert first.epochs[-1].test_loss == pytest.approx(second.epochs[-1].test_loss, rel=1e-3)
    report = dlsuite("report", "--format", "json", folder=tmp_path)
    assert {each["accuracy"] for each in json.loads(report.stdout)["trials"]} == {None}
    assert "mean squared error" in dlsuite("report", folder=tmp_path, COLUMNS="200").stdout
    assert dlsuite("verify", "latest", folder=tmp_path).returncode == 0


def test_several_labels_at_once_are_trained_and_proven(table: Path, tmp_path: Path) -> None:
    data = {"path": "flats.csv", "target": ["large", "many"]}
    found = records(tmp_path, {"dataset": data, **TRAINING})
    assert all((record.epochs[-1].test_accuracy or 0) > 0.9 for record in found)
    assert dlsuite("verify", "latest", folder=tmp_path).returncode == 0
