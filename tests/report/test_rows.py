"""A row for each run, as CSV and as Parquet."""

import csv
import io
from pathlib import Path

import duckdb

from suite.report import rows
from suite.results import store
from suite.results.columns import TABLES
from suite.results.record import Error, Record
from suite.results.telemetry import Energy
from tests.report.made_inference import inferred, offline
from tests.report.made_run import made_run
from tests.report.test_warnings import QUIET_MACHINE
from tests.results.test_record import record


def parsed(records: list[Record]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(rows.as_csv(records))))


def test_csv_has_a_row_for_each_run_and_empty_cells_for_unknown_values(tmp_path: Path) -> None:
    found = parsed(store.read(made_run(tmp_path)))
    assert len(found) == 33
    (crashed,) = (row for row in found if row["status"] != "ok")
    assert crashed["framework"] == "keras" and crashed["error"] == "the worker was killed"
    assert (crashed["samples_per_s"], crashed["proven"]) == ("", "false")
    first = next(row for row in found if row["framework"] == "tensorflow" and row["epochs"] == "3")
    assert (first["model"], first["learning_rate"], first["proven"]) == ("lenet", "0.01", "true")
    assert float(first["test_accuracy"]) == 0.95


def test_a_message_with_carriage_returns_is_one_cell() -> None:
    error = Error(error_class="Killed", message="progress 10%\rprogress 100%\r\nkilled")
    failed = record(status="failed", error=error)
    (row,) = parsed([failed])
    assert row["error"] == "progress 10%\nprogress 100%\nkilled"
    assert rows.as_parquet([failed])


def test_energy_is_that_of_the_gpu_where_there_is_one() -> None:
    def energy(joules: float) -> Energy:
        return Energy(
            source="counter",
            gross_j=joules,
            net_j=None,
            gross_j_per_sample=joules / 100,
            net_j_per_sample=None,
            idle_power_w=None,
        )

    assert QUIET_MACHINE.gpu
    gpu = QUIET_MACHINE.gpu.model_copy(update={"energy": energy(70)})
    on_cpu = QUIET_MACHINE.model_copy(update={"cpu_energy": energy(30), "gpu": None})
    on_gpu = on_cpu.model_copy(update={"gpu": gpu})
    found = parsed([record(telemetry=on_cpu), record(telemetry=on_gpu, device="cuda:1"), record()])
    assert [row["energy_j"] for row in found] == ["30.0", "70.0", ""]


def test_parquet_has_the_same_rows_with_types(tmp_path: Path) -> None:
    error = Error(error_class="X", message='two lines,\nand a "quote"')
    records = [record(samples_per_s=12.5, steady=False), record(status="failed", error=error)]
    file = tmp_path / "runs.parquet"
    file.write_bytes(rows.as_parquet(records))
    found = duckdb.read_parquet(str(file))
    assert found.columns == [column.name for column in rows.COLUMNS]
    assert [str(kind) for kind in found.types] == [column.type for column in rows.COLUMNS]
    chosen = found.project("samples_per_s, steady, error, batch_size").fetchall()
    assert chosen == [(12.5, False, None, 64), (None, None, error.message, 64)]


def test_a_run_of_inference_has_its_latencies_and_queries() -> None:
    latency, throughput = parsed([inferred(), *offline({4: 50.0})])
    assert (latency["scenario"], latency["p50_s"], latency["queries"]) == (
        "single_stream",
        "0.0003",
        "2500",
    )
    assert float(latency["p99_9_s"]) == 8 * 300e-6 and latency["answers"] == "250"
    assert float(latency["overhead_share"]) == 1e-6 / 300e-6
    assert (throughput["p50_s"], throughput["batch_size"]) == ("", "4")


def test_rows_and_the_index_have_the_same_columns_and_booleans() -> None:
    names = [column.name for column in rows.COLUMNS]
    assert names == [each.name for each in TABLES["records"] if each.name != "date"]
    assert len(set(names)) == len(names)
    assert rows.csv_of([{"a": True, "b": None}, {"a": False, "b": 2}], ["a", "b"]) == (
        "a,b\ntrue,\nfalse,2"
    )
