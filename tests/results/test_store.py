"""The folder of a run: its files, the link `latest`, and the errors of reading and writing."""

import json
from pathlib import Path

import pytest

from suite.errors import ResultsError
from suite.results import store
from tests.results.test_record import record

KEYS = """schema_version run_id suite trial_id framework framework_version variant track
runtime workload parameters flops_per_sample bytes_per_sample data_origin device cpu_parts
repeat seed measure repeats interleaved steady status error engine image_id environment times
blocks samples_per_s steps optimizer_steps epochs inference throttling neighbours memory telemetry
ranks parity log"""
WORKLOAD_KEYS = """dataset mode batch_size accumulate precision loss label_smoothing class_weights
input batch_norm optimizer scenario query_samples latency_bound_s proof_learning_rate
epoch_samples weights_sha256 epochs model"""


def test_a_record_is_one_complete_file_with_the_documented_keys(tmp_path: Path) -> None:
    with store.run_folder(tmp_path / "results", "quick") as folder:
        folder.append(record())
        folder.append(record(repeat=1))
    files = sorted(folder.path.glob("*.json"))
    assert [file.name for file in files] == ["pytorch-eager-r0.json", "pytorch-eager-r1.json"]
    values = json.loads(files[0].read_text())
    assert list(values) == KEYS.split()
    assert list(values["workload"]) == WORKLOAD_KEYS.split()
    assert store.read(folder.path) == [record(), record(repeat=1)]
    assert not [path for path in folder.path.iterdir() if path.name.endswith(".part")]


def test_latest_points_at_the_newest_run_that_has_a_record(tmp_path: Path) -> None:
    for _ in range(2):
        with store.run_folder(tmp_path, "quick") as folder:
            folder.append(record())
    assert (tmp_path / "latest").resolve() == folder.path
    with store.run_folder(tmp_path, "quick") as empty:
        pass
    assert (tmp_path / "latest").resolve() == folder.path
    assert not empty.path.exists()


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(ResultsError, match="cannot be written: Not a directory"),
        store.run_folder(tmp_path / "file" / "results", "quick"),
    ):
        pass


def test_a_run_without_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="has no records"):
        store.read(tmp_path)
    assert store.read_all(tmp_path) == []


def test_a_file_that_is_not_a_record_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "x-r0.json"
    file.write_text("{")
    with pytest.raises(ResultsError, match=r"x-r0\.json: not a record"):
        store.read(tmp_path)
    values = json.loads(record().model_dump_json())
    del values["framework"]
    file.write_text(json.dumps(values))
    with pytest.raises(ResultsError, match="framework: Field required"):
        store.read(tmp_path)


def test_a_run_without_records_has_the_next_step(tmp_path: Path) -> None:
    def hint(name: str) -> str | None:
        with pytest.raises(ResultsError, match="has no records") as caught:
            store.read(tmp_path / name)
        return caught.value.hint

    assert hint("20261130-120000-quick") == "dlsuite run quick"
    (tmp_path / "20261130-120001-quick").mkdir()
    assert hint("20261130-120000-quick") == "name a run; nearest: '20261130-120001-quick'"
    assert hint("latest") == "dlsuite run quick"
    (tmp_path / "20261130-120001-quick" / store.PLAN).touch()
    unfinished = tmp_path / "20261130-120001-quick"
    assert hint(unfinished.name) == f"dlsuite resume {unfinished}"
