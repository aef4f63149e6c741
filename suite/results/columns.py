"""The columns of the index: what `dlsuite query` and `dlsuite history` know about each record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from suite.results import stats
from suite.results.record import Record, parity_of


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of a table: its type in SQL, and what it means in one line of the documentation."""

    name: str
    type: str
    meaning: str


@dataclass(frozen=True, kw_only=True)
class OfRecord(Column):
    """A column whose value follows from one record."""

    value: Callable[[Record], Any]


def _text(name: str, meaning: str, value: Callable[[Record], Any]) -> OfRecord:
    return OfRecord(name=name, type="VARCHAR", meaning=meaning, value=value)


def _whole(name: str, meaning: str, value: Callable[[Record], Any]) -> OfRecord:
    return OfRecord(name=name, type="BIGINT", meaning=meaning, value=value)


def _real(name: str, meaning: str, value: Callable[[Record], Any]) -> OfRecord:
    return OfRecord(name=name, type="DOUBLE", meaning=meaning, value=value)


def _flag(name: str, meaning: str, value: Callable[[Record], Any]) -> OfRecord:
    return OfRecord(name=name, type="BOOLEAN", meaning=meaning, value=value)


def host_of(record: Record) -> str:
    """The machine as text: its processor, its cores and, for a trial on GPUs, their names."""
    machine = record.environment
    parts = [str(machine.get("cpu") or "unknown processor")]
    parts.append(f"{len(machine.get('cpus') or [])} cores")
    if record.devices.kind != "cpu":
        parts += dict.fromkeys(str(gpu.get("name")) for gpu in machine.get("gpus") or [])
    return ", ".join(parts)


def _optimizer(record: Record) -> str | None:
    optimizer = record.workload.optimizer
    return " ".join(f"{each}" for each in optimizer.model_dump().values()) if optimizer else None


OF_FOLDER = (
    Column(name="run_id", type="VARCHAR", meaning="the name of the run's folder"),
    Column(name="date", type="TIMESTAMP", meaning="when the run started, by its name"),
)
IDENTITY = (
    _text("suite", "the suite", lambda r: r.suite),
    _text("trial_id", "the trial: the same in all runs of the same work", lambda r: r.trial_id),
    _text("framework", "the framework", lambda r: r.framework),
    _text("variant", "the variant", lambda r: r.variant),
    _text("track", "the track", lambda r: r.track),
    _text("model", "the model", lambda r: r.workload.model),
    _text("dataset", "the dataset", lambda r: r.workload.dataset),
    _text("mode", "`train`", lambda r: r.workload.mode),
    _whole("batch_size", "samples in a step", lambda r: r.workload.batch_size),
    _text("precision", "`float32` or `bf16_mixed`", lambda r: r.workload.precision),
    _text("arithmetic", "`float32`, `bfloat16` or `tf32`", lambda r: r.arithmetic),
    _text("input", "where batches come from", lambda r: r.workload.input),
    _text("optimizer", "the optimizer with its numbers", _optimizer),
    _text("device", "the device set", lambda r: r.device),
    _whole("seed", "the seed of weights and order", lambda r: r.seed),
    _whole("interleaved", "workers that ran at once; 1: it ran alone", lambda r: r.interleaved),
    _text("engine", "`docker`, `venv` or `slurm`", lambda r: r.engine),
    _text("host", "processor, cores and GPUs of the machine", host_of),
    _text("kernel", "the kernel of the machine", lambda r: r.environment.get("kernel")),
    _text("dlsuite", "the version of dlsuite", lambda r: r.environment.get("dlsuite")),
    _text("lock_sha256", "the lock of the framework", lambda r: r.environment.get("lock_sha256")),
    _text("image_id", "the image; null without a container", lambda r: r.image_id),
)
OF_RUN = (
    _text("framework_version", "the version of the framework", lambda r: r.framework_version),
    _whole("repeat", "the number of the run of its trial, from 0", lambda r: r.repeat),
    _text("status", "`ok`, `failed`, `timeout`, `oom` or `skipped`", lambda r: r.status),
    _text("error_class", "why it failed", lambda r: r.error.error_class if r.error else None),
    _text("error", "the message of the failure", lambda r: r.error.message if r.error else None),
    _flag("proven", "whether it is proven to be the same work", lambda r: r.parity.proven),
    _text("certificate", "the key of its certificate", lambda r: r.parity.certificate),
    _real("samples_per_s", "the rate in the timed blocks", lambda r: r.samples_per_s),
    _flag("steady", "whether warm-up ended because it was steady", lambda r: r.steady),
    _whole("blocks", "timed blocks", lambda r: sum(not each for each in r.blocks.warmup)),
    _real("first_step_s", "the duration of the first step", lambda r: r.times.first_step_s),
    _real("warmup_s", "the duration of warm-up", lambda r: r.times.warmup_s),
    _real("measured_s", "the duration of the timed blocks", lambda r: r.times.measured_s),
    _real("total_s", "the duration of the whole run", lambda r: r.times.total_s),
    _real(
        "test_accuracy",
        "after the last epoch",
        lambda r: r.epochs[-1].test_accuracy if r.epochs else None,
    ),
    _whole("host_rss_peak_bytes", "memory of the worker", lambda r: r.memory.host_rss_peak_bytes),
    _whole("device_peak_bytes", "memory on the device", lambda r: r.memory.device_peak_bytes),
)
OF_TRIAL = (
    Column(name="framework_version", type="VARCHAR", meaning="the version of the framework"),
    Column(name="runs", type="BIGINT", meaning="runs with status `ok` and a rate"),
    Column(name="failed", type="BIGINT", meaning="runs with another status"),
    Column(name="proven", type="BOOLEAN", meaning="whether it is proven to be the same work"),
    Column(name="samples_per_s", type="DOUBLE", meaning="the median rate of these runs"),
    Column(name="ci_low", type="DOUBLE", meaning="the lower end of its 95 % interval"),
    Column(name="ci_high", type="DOUBLE", meaning="the upper end of its 95 % interval"),
)
TABLES: dict[str, tuple[Column, ...]] = {
    "records": (*OF_FOLDER, *IDENTITY, *OF_RUN),
    "trials": (*OF_FOLDER, *IDENTITY, *OF_TRIAL),
}


def of_record(record: Record) -> dict[str, Any]:
    """The row of a record in the table `records`, without the columns of its folder."""
    return {column.name: column.value(record) for column in (*IDENTITY, *OF_RUN)}


def of_trial(runs: Sequence[Record]) -> dict[str, Any]:
    """The row of a trial in the table `trials`, from all its runs in one folder."""
    ok = [run for run in runs if run.status == "ok"]
    rate = stats.summarise([run.samples_per_s for run in ok if run.samples_per_s])
    shown = ok[0] if ok else runs[0]
    return {
        **{column.name: column.value(shown) for column in IDENTITY},
        "framework_version": shown.framework_version,
        "runs": rate.runs,
        "failed": len(runs) - len(ok),
        "proven": parity_of(runs).proven,
        "samples_per_s": rate.median,
        "ci_low": rate.ci_low,
        "ci_high": rate.ci_high,
    }
