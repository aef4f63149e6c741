"""The index of all records: made, brought up to date, and made again where it is of no use."""

import os
import shutil
from datetime import datetime
from pathlib import Path

import pytest

from suite.errors import ResultsError
from suite.results import index, store
from suite.results.record import Error, Record
from tests.report.made_inference import inferred
from tests.results.test_record import record


def write_run(results: Path, name: str, *rates: float, **changes: object) -> Path:
    """A run of one trial with these rates."""
    folder = store.RunFolder(results / name)
    folder.path.mkdir(parents=True)
    for repeat, rate in enumerate(rates):
        folder.append(record(run_id=name, repeat=repeat, samples_per_s=rate, **changes))
    return folder.path


@pytest.fixture
def results(tmp_path: Path, home: Path) -> Path:
    place = tmp_path / "results"
    write_run(place, "20260101-120000-quick", 100.0, 102.0, 101.0)
    write_run(place, "20260102-120000-quick", 90.0)
    return place


def rows(results: Path, sql: str) -> list[tuple[object, ...]]:
    with index.opened(results) as connection:
        return connection.execute(sql).fetchall()


def test_every_record_and_every_trial_of_a_run_is_a_row(results: Path) -> None:
    sql = "select run_id, repeat, samples_per_s from records order by date, repeat"
    assert rows(results, sql) == [
        ("20260101-120000-quick", 0, 100.0),
        ("20260101-120000-quick", 1, 102.0),
        ("20260101-120000-quick", 2, 101.0),
        ("20260102-120000-quick", 0, 90.0),
    ]
    sql = (
        "select date, runs, samples_per_s, ci_low, ci_high, model, proven from trials order by date"
    )
    assert rows(results, sql) == [
        (datetime(2026, 1, 1, 12), 3, 101.0, 100.0, 102.0, "lenet", True),
        (datetime(2026, 1, 2, 12), 1, 90.0, None, None, "lenet", True),
    ]


def test_only_new_and_changed_runs_are_read(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    real = store.read_all

    def counted(path: Path) -> list[Record]:
        read.append(path.name)
        return real(path)

    monkeypatch.setattr(store, "read_all", counted)
    count = "select count(*) from records"
    assert rows(results, count) == [(4,)]
    assert rows(results, count) == [(4,)]
    assert read == ["20260101-120000-quick", "20260102-120000-quick"]
    write_run(results, "20260103-120000-quick", 80.0)
    store.RunFolder(results / "20260102-120000-quick").append(record(repeat=1, samples_per_s=91.0))
    assert rows(results, count) == [(6,)]
    assert sorted(read[2:]) == ["20260102-120000-quick", "20260103-120000-quick"]
    shutil.rmtree(results / "20260101-120000-quick")
    assert rows(results, count) == [(3,)]
    assert len(read) == 4


def test_a_record_that_was_edited_in_place_is_read_again(results: Path) -> None:
    sql = "select samples_per_s from records where run_id = '20260102-120000-quick'"
    assert rows(results, sql) == [(90.0,)]
    file = results / "20260102-120000-quick" / "pytorch-eager-r0.json"
    file.write_text(file.read_text().replace('"samples_per_s":90.0', '"samples_per_s":95.0'))
    text = file.read_text().replace('"samples_per_s": 90.0', '"samples_per_s": 95.0')
    file.write_text(text)
    os.utime(file, (0, 0))
    assert rows(results, sql) == [(95.0,)]


@pytest.mark.parametrize("damage", ["removed", "damaged", "of another version"])
def test_an_index_of_no_use_is_made_again(
    results: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = "select count(*) from records"
    assert rows(results, count) == [(4,)]
    path = index.path_of(results)
    if damage == "removed":
        path.unlink()
    elif damage == "damaged":
        path.write_bytes(b"not a database" * 1000)
    else:
        monkeypatch.setattr(index, "VERSION", index.VERSION + 1)
    assert rows(results, count) == [(4,)]
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_run_with_an_unreadable_record_is_left_out_by_name(results: Path) -> None:
    (results / "20260102-120000-quick" / "x-r0.json").write_text("{")
    assert rows(results, "select count(*) from records") == [(3,)]
    with index.opened(results) as connection:
        (problem,) = index.problems(connection)
    assert "x-r0.json: not a record" in problem


def test_links_and_hidden_folders_are_no_runs(results: Path) -> None:
    assert (results / "latest").is_symlink()
    shutil.copytree(results / "20260102-120000-quick", results / ".import-x")
    assert rows(results, "select count(*) from records") == [(4,)]


def test_a_folder_without_records_is_refused(tmp_path: Path, home: Path) -> None:
    with pytest.raises(ResultsError, match="has no records"), index.opened(tmp_path):
        pass
    with pytest.raises(ResultsError, match="has no records"), index.opened(tmp_path / "none"):
        pass


def test_a_run_whose_name_has_no_date_has_that_of_its_oldest_record(results: Path) -> None:
    folder = write_run(results, "before", 70.0)
    at = datetime(2025, 5, 5, 5, 5, 5)
    os.utime(folder / "pytorch-eager-r0.json", (at.timestamp(), at.timestamp()))
    assert rows(results, "select date from trials where run_id = 'before'") == [(at,)]


def test_a_failed_run_has_its_error_and_a_machine_its_description(results: Path) -> None:
    error = Error(error_class="WorkerCrashed", message="it was killed")
    machine = {"cpu": "AMD EPYC", "cpus": [0, 1], "gpus": [{"name": "H100"}], "dlsuite": "1"}
    folder = store.RunFolder(results / "20260104-120000-quick")
    folder.path.mkdir()
    values = {"trial_id": "t", "status": "failed", "error": error, "environment": machine}
    folder.append(record(**values))
    folder.append(record(**values, repeat=1, device="cuda"))
    sql = "select host, status, error_class, error, samples_per_s from records where trial_id = 't'"
    assert rows(results, f"{sql} order by repeat") == [
        ("AMD EPYC, 2 cores", "failed", "WorkerCrashed", "it was killed", None),
        ("AMD EPYC, 2 cores, H100", "failed", "WorkerCrashed", "it was killed", None),
    ]
    sql = "select runs, failed, samples_per_s from trials where trial_id = 't'"
    assert rows(results, sql) == [(0, 2, None)]


def test_a_trial_of_inference_has_the_median_and_the_interval_of_its_metric(
    tmp_path: Path, home: Path
) -> None:
    folder = store.RunFolder(tmp_path / "20260101-120000-inference")
    folder.path.mkdir(parents=True)
    for repeat, value in enumerate((3e-4, 1e-4, 2e-4)):
        folder.append(inferred(p50_s=value, repeat=repeat))
        folder.append(inferred("server", repeat=repeat, rate_per_s=1 / value))
    sql = "select scenario, p50_s, p50_low_s, p50_high_s, round(rate_per_s) from trials order by 1"
    assert rows(tmp_path, sql) == [
        ("server", 300e-6, 300e-6, 300e-6, 5000),
        ("single_stream", 2e-4, 1e-4, 3e-4, None),
    ]
    sql = (
        "select latency_bound_s, p99_9_s, answers from records where repeat = 1"
        " order by scenario desc"
    )
    assert rows(tmp_path, sql) == [
        (None, 8e-4, 250),
        (0.01, 8 * 300e-6, 250),
    ]
