"""One row for each run of a folder, with documented columns: as CSV and as Parquet."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

from suite.results.record import Record
from suite.results.telemetry import Telemetry

Kind = Literal["VARCHAR", "BIGINT", "DOUBLE", "BOOLEAN"]  # the types of DuckDB


@dataclass(frozen=True)
class Column:
    """A column; `value` gives None where it is unknown."""

    name: str
    kind: Kind
    meaning: str
    value: Callable[[Record], Any]


_energy = attrgetter("energy")


def _of(part: Callable[[Record], Any], name: str) -> Callable[[Record], Any]:
    """The value with this name in a part of a record; None where it has no such part."""
    return lambda record: getattr(part(record), name, None)


def _last_epoch(record: Record) -> Any:
    return record.epochs[-1] if record.epochs else None


def _optimizer(record: Record) -> Any:
    return record.workload.optimizer


def _telemetry(record: Record) -> Telemetry | None:
    return record.telemetry


COLUMNS = (
    Column("run_id", "VARCHAR", "the folder of the run", lambda r: r.run_id),
    Column("suite", "VARCHAR", "the suite", lambda r: r.suite),
    Column("trial_id", "VARCHAR", "the trial", lambda r: r.trial_id),
    Column("repeat", "BIGINT", "the number of the run in its trial, from 0", lambda r: r.repeat),
    Column("framework", "VARCHAR", "the framework", lambda r: r.framework),
    Column("framework_version", "VARCHAR", "its version", lambda r: r.framework_version),
    Column("variant", "VARCHAR", "the variant", lambda r: r.variant),
    Column("track", "VARCHAR", "the track", lambda r: r.track),
    Column("model", "VARCHAR", "the model", lambda r: r.workload.model),
    Column("dataset", "VARCHAR", "the dataset", lambda r: r.workload.dataset),
    Column("mode", "VARCHAR", "train or infer", lambda r: r.workload.mode),
    Column("batch_size", "BIGINT", "samples in a batch", lambda r: r.workload.batch_size),
    Column("precision", "VARCHAR", "of the operands of products", lambda r: r.workload.precision),
    Column("arithmetic", "VARCHAR", "the precision, or tf32", lambda r: r.arithmetic),
    Column("input", "VARCHAR", "where batches come from", lambda r: r.workload.input),
    Column("optimizer", "VARCHAR", "the optimizer", _of(_optimizer, "name")),
    Column(
        "learning_rate",
        "DOUBLE",
        "its learning rate",
        _of(_optimizer, "learning_rate"),
    ),
    Column("device", "VARCHAR", "the device set", lambda r: r.device),
    Column("cores", "BIGINT", "physical cores of all ranks", lambda r: r.cores),
    Column("seed", "BIGINT", "the seed", lambda r: r.seed),
    Column("interleaved", "BIGINT", "workers at once, block by block", lambda r: r.interleaved),
    Column("status", "VARCHAR", "ok, failed, timeout, oom or skipped", lambda r: r.status),
    Column("error", "VARCHAR", "why it is not ok", _of(lambda r: r.error, "message")),
    Column("proven", "BOOLEAN", "whether it is the same work", lambda r: r.parity.proven),
    Column("samples_per_s", "DOUBLE", "the rate of the timed blocks", lambda r: r.samples_per_s),
    Column("steady", "BOOLEAN", "whether the rate was steady", lambda r: r.steady),
    Column("parameters", "BIGINT", "of the model", lambda r: r.parameters),
    Column("flops_per_sample", "BIGINT", "of the model", lambda r: r.flops_per_sample),
    Column("first_step_s", "DOUBLE", "duration of the first step", lambda r: r.times.first_step_s),
    Column("warmup_s", "DOUBLE", "duration of the warm-up", lambda r: r.times.warmup_s),
    Column("measured_s", "DOUBLE", "duration of the timed blocks", lambda r: r.times.measured_s),
    Column("total_s", "DOUBLE", "duration of the whole run", lambda r: r.times.total_s),
    Column("epochs", "BIGINT", "whole epochs", lambda r: len(r.epochs)),
    Column("epoch_s", "DOUBLE", "duration of the last epoch", _of(_last_epoch, "duration_s")),
    Column("test_loss", "DOUBLE", "after the last epoch", _of(_last_epoch, "test_loss")),
    Column("test_accuracy", "DOUBLE", "after the last epoch", _of(_last_epoch, "test_accuracy")),
    Column("host_rss_peak_bytes", "BIGINT", "peak memory", lambda r: r.memory.host_rss_peak_bytes),
    Column(
        "device_peak_bytes", "BIGINT", "peak memory of a GPU", lambda r: r.memory.device_peak_bytes
    ),
    Column("cores_used", "DOUBLE", "mean busy cores of the worker", _of(_telemetry, "cores")),
    Column("other_cores", "DOUBLE", "mean busy cores of others", _of(_telemetry, "other_cores")),
    Column("energy_j", "DOUBLE", "gross energy of the timed blocks", _of(_energy, "gross_j")),
    Column(
        "energy_j_per_sample", "DOUBLE", "gross, per sample", _of(_energy, "gross_j_per_sample")
    ),
    Column("engine", "VARCHAR", "docker, venv or slurm", lambda r: r.engine),
    Column("image_id", "VARCHAR", "the image", lambda r: r.image_id),
    Column(
        "lock_sha256", "VARCHAR", "the framework's lock", lambda r: r.environment.get("lock_sha256")
    ),
    Column("cpu", "VARCHAR", "the processor", lambda r: r.environment.get("cpu")),
    Column("dlsuite", "VARCHAR", "the version of dlsuite", lambda r: r.environment.get("dlsuite")),
)


def as_csv(records: Iterable[Record]) -> str:
    """The rows as CSV with a heading; unknown values are empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(column.name for column in COLUMNS)
    for record in records:
        writer.writerow(_text(column.value(record)) for column in COLUMNS)
    return out.getvalue()


def _text(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def as_parquet(records: Iterable[Record]) -> bytes:
    """The rows as a Parquet file."""
    import duckdb

    kinds = {column.name: column.kind for column in COLUMNS}
    with tempfile.TemporaryDirectory() as temporary, duckdb.connect() as database:
        source, target = Path(temporary) / "rows.csv", Path(temporary) / "rows.parquet"
        source.write_text(as_csv(records), encoding="utf-8")
        rows = database.read_csv(str(source), header=True, columns=kinds)
        rows.write_parquet(str(target))
        return target.read_bytes()
