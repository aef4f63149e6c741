"""The columns of a record: of the index that `dlsuite query` reads, and of exported rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from suite.results import rental, stats
from suite.results.metric import LATENCY, QUERY_RATE, RATE, Metric, values_of
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


NAMED = ("clip_norm",)  # values that are written with their key


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
    cores = len(machine.get("cpus") or [])
    parts.append(f"{cores} core{'s' if cores != 1 else ''}")
    if record.devices.kind != "cpu":
        parts += dict.fromkeys(str(gpu.get("name")) for gpu in machine.get("gpus") or [])
    return ", ".join(parts)


def as_text(values: Mapping[str, Any]) -> str:
    """The values of an object, such as an optimizer; an option that is not used is left out."""
    parts = []
    for key, value in values.items():
        if value is True:
            parts.append(key)
        elif isinstance(value, dict):
            parts.append(f"{key} {as_text(value)}")
        elif value is not None and value is not False:
            parts.append(f"{key} {value}" if key in NAMED else str(value))
    return " ".join(parts)


def _optimizer(record: Record) -> str | None:
    optimizer = record.workload.optimizer
    return as_text(optimizer.model_dump()) if optimizer else None


def _of(part: str, name: str) -> Callable[[Record], Any]:
    """The value `name` in a part of a record; None where the record has no such part."""
    return lambda record: getattr(getattr(record, part), name, None)


def _of_workload(name: str) -> Callable[[Record], Any]:
    return lambda record: getattr(record.workload, name)


def _of_epoch(name: str) -> Callable[[Record], Any]:
    """A value after the last epoch."""
    return lambda record: getattr(record.epochs[-1], name) if record.epochs else None


def _percentile(name: str) -> Callable[[Record], Any]:
    """A latency of the queries."""
    return lambda record: record.inference.percentiles_s.get(name) if record.inference else None


def _estimate(name: str) -> Callable[[Record], Any]:
    """LoadGen's estimate of a percentile."""
    return lambda record: record.inference.early_stopping_s.get(name) if record.inference else None


def _of_environment(name: str) -> Callable[[Record], Any]:
    return lambda record: record.environment.get(name)


def _of_rental(name: str) -> Callable[[Record], Any]:
    return lambda record: (record.environment.get(rental.FACT) or {}).get(name)


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
    _text("model", "the model", _of_workload("model")),
    _text("dataset", "the dataset", _of_workload("dataset")),
    _text("mode", "`train` or `infer`", _of_workload("mode")),
    _text("scenario", "of inference: how queries arrive", _of_workload("scenario")),
    _real("latency_bound_s", "of scenario server", _of_workload("latency_bound_s")),
    _whole("batch_size", "samples in a step or a call", _of_workload("batch_size")),
    _text("precision", "`float32` or `bf16_mixed`", _of_workload("precision")),
    _text("loss", "of the training: docs/reference/protocol.md, Losses", _of_workload("loss")),
    _text("arithmetic", "`float32`, `bfloat16` or `tf32`", lambda r: r.arithmetic),
    _text("input", "where batches come from", _of_workload("input")),
    _text("optimizer", "the optimizer with its numbers", _optimizer),
    _real(
        "learning_rate",
        "of the optimizer",
        lambda r: r.workload.optimizer.learning_rate if r.workload.optimizer else None,
    ),
    _text("device", "the device set", lambda r: r.device),
    _whole("cores", "physical cores of all ranks", lambda r: r.cores),
    _whole("seed", "the seed of weights and order", lambda r: r.seed),
    _whole("interleaved", "workers that ran at once; 1: it ran alone", lambda r: r.interleaved),
    _text("engine", "`docker`, `venv` or `slurm`", lambda r: r.engine),
    _text("host", "processor, cores and GPUs of the machine", host_of),
    _text("cpu", "the processor", _of_environment("cpu")),
    _text("kernel", "the kernel of the machine", _of_environment("kernel")),
    _text("dlsuite", "the version of dlsuite", _of_environment("dlsuite")),
    _text("lock_sha256", "the lock of the framework", _of_environment("lock_sha256")),
    _text("image_id", "the image; null without a container", lambda r: r.image_id),
    _text("provider", "of a rented machine", _of_rental("provider")),
    _text("region", "of a rented machine", _of_rental("region")),
    _text(
        "machine_type", "of a rented machine, as its provider names it", _of_rental("machine_type")
    ),
    _real("price_per_hour", "of a rented machine, in dollars", _of_rental("price_per_hour")),
    _flag("spot", "whether a rented machine can be taken away", _of_rental("spot")),
)
OF_INFERENCE = (
    _real("p50_s", "the median latency of the queries", _percentile("50")),
    _real("p90_s", "the latency that 90 % do not exceed", _percentile("90")),
    _real("p95_s", "the latency that 95 % do not exceed", _percentile("95")),
    _real("p97_s", "the latency that 97 % do not exceed", _percentile("97")),
    _real("p99_s", "the latency that 99 % do not exceed", _percentile("99")),
    _real("p99_9_s", "the latency that 99.9 % do not exceed", _percentile("99.9")),
    _real("p90_estimate_s", "LoadGen's upper estimate of p90", _estimate("90")),
    _real("p99_estimate_s", "LoadGen's upper estimate of p99", _estimate("99")),
    _real("mean_s", "the mean latency of the queries", _of("inference", "mean_s")),
    _real("rate_per_s", "the rate of queries of scenario server", _of("inference", "rate_per_s")),
    _flag(
        "rate_holds",
        "scenario server: whether p99 is within the bound",
        lambda r: (
            r.inference.holds(r.workload.latency_bound_s)
            if r.inference and r.workload.latency_bound_s
            else None
        ),
    ),
    _whole("queries", "timed queries", _of("inference", "queries")),
    _real(
        "overhead_share",
        "the p50 of a null model over that of the model; in offline, over the duration of a call",
        _of("inference", "overhead_share"),
    ),
    _whole(
        "answers",
        "timed answers that were compared with the reference",
        lambda r: r.parity.closing.answers if r.parity.closing else None,
    ),
)
OF_RUN = (
    _text("framework_version", "the version of the framework", lambda r: r.framework_version),
    _whole("repeat", "the number of the run of its trial, from 0", lambda r: r.repeat),
    _text("status", "`ok`, `failed`, `timeout`, `oom` or `skipped`", lambda r: r.status),
    _text("error_class", "why it failed", _of("error", "error_class")),
    _text("error", "the message of the failure", _of("error", "message")),
    _flag("proven", "whether it is proven to be the same work", lambda r: r.parity.proven),
    _text("certificate", "the key of its certificate", lambda r: r.parity.certificate),
    _real("samples_per_s", "the rate in the timed blocks or queries", lambda r: r.samples_per_s),
    *OF_INFERENCE,
    _flag("steady", "whether warm-up ended because it was steady", lambda r: r.steady),
    _whole("parameters", "of the model", lambda r: r.parameters),
    _whole(
        "flops_per_sample",
        "floating-point operations for a sample, in its mode",
        lambda r: r.flops_per_sample,
    ),
    _whole("blocks", "timed blocks", lambda r: sum(not each for each in r.blocks.warmup)),
    _real("disturbed_s", "the duration of the disturbed blocks", lambda r: r.disturbed_s),
    _real("throttled", "share of the throttled periods of a CPU quota", lambda r: r.throttled),
    _real("build_s", "building the model, with compilation done ahead", _of("times", "build_s")),
    _real("first_step_s", "the duration of the first step or call", _of("times", "first_step_s")),
    _real("warmup_s", "the duration of warm-up", _of("times", "warmup_s")),
    _real(
        "exchange_s",
        "one all-reduce of the gradients, without other work",
        _of("times", "exchange_s"),
    ),
    _real("measured_s", "the duration of the timed part", _of("times", "measured_s")),
    _real("total_s", "the duration of the whole run", _of("times", "total_s")),
    _whole("epochs", "whole epochs", lambda r: len(r.epochs)),
    _real("epoch_s", "the duration of the last epoch", _of_epoch("duration_s")),
    _real("test_loss", "after the last epoch", _of_epoch("test_loss")),
    _real("test_accuracy", "after the last epoch", _of_epoch("test_accuracy")),
    _whole("host_rss_peak_bytes", "memory of the worker", _of("memory", "host_rss_peak_bytes")),
    _whole("device_peak_bytes", "memory on the device", _of("memory", "device_peak_bytes")),
    _real("cores_used", "mean busy cores of all ranks", lambda r: r.cores_used),
    _real("other_cores", "mean busy cores of other processes", lambda r: r.other_cores),
    _real("energy_j", "gross energy of the timed part", _of("energy", "gross_j")),
    _real("energy_j_per_sample", "gross, per sample", _of("energy", "gross_j_per_sample")),
)
OF_RECORD = (*IDENTITY, *OF_RUN)
METRICS: dict[Metric, str] = {
    RATE: "the median rate of these runs",
    LATENCY: "the median of their median latencies",
    QUERY_RATE: "the median of their rates of queries",
}
OF_TRIAL = (
    Column(name="framework_version", type="VARCHAR", meaning="the version of the framework"),
    Column(name="runs", type="BIGINT", meaning="runs with status `ok` and a rate"),
    Column(name="failed", type="BIGINT", meaning="runs with another status"),
    Column(name="proven", type="BOOLEAN", meaning="whether it is proven to be the same work"),
    *(
        Column(name=name, type="DOUBLE", meaning=text)
        for metric, meaning in METRICS.items()
        for name, text in zip(
            metric.columns,
            (meaning, "the lower end of its 95 % interval", "the upper end of its 95 % interval"),
            strict=True,
        )
    ),
)
TABLES: dict[str, tuple[Column, ...]] = {
    "records": (*OF_FOLDER, *OF_RECORD),
    "trials": (*OF_FOLDER, *IDENTITY, *OF_TRIAL),
}


def of_record(record: Record) -> dict[str, Any]:
    """The row of a record in the table `records`, without the columns of its folder."""
    return {column.name: column.value(record) for column in OF_RECORD}


def of_trial(runs: Sequence[Record]) -> dict[str, Any]:
    """The row of a trial in the table `trials`, from all its runs in one folder."""
    ok = [run for run in runs if run.status == "ok"]
    shown = ok[0] if ok else runs[0]
    values: dict[str, Any] = {
        "framework_version": shown.framework_version,
        "runs": len(values_of(ok)),
        "failed": len(runs) - len(ok),
        "proven": parity_of(runs).proven,
    }
    for metric in METRICS:
        found = stats.summarise([value for value in map(metric.of, ok) if value])
        values |= zip(metric.columns, (found.median, found.ci_low, found.ci_high), strict=True)
    return {**{column.name: column.value(shown) for column in IDENTITY}, **values}
