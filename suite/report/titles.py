"""How reports name workloads, trials and configurations, and in which order they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from suite.errors import UsageError
from suite.manifests import catalog
from suite.report.best import WAYS

if TYPE_CHECKING:
    from suite.report.summary import TrialSummary
    from suite.results.record import Record


def order(summary: TrialSummary) -> tuple[object, ...]:
    """A key that sorts trials by workload, then fastest first."""
    workload = summary.record.workload
    of_workload = (workload.model, workload.precision, WAYS.index(workload.scenario))
    of_input = (workload.input, 0 if workload.scenario == "offline" else workload.batch_size)
    return *of_workload, *of_input, title_of(summary), -summary.speed


def title_of(summary: TrialSummary) -> str:
    """The title of the trial's table: its workload, in scenario offline at all batch sizes."""
    return _title(summary.record, batch=summary.record.workload.scenario != "offline")


def work_of(summary: TrialSummary) -> str:
    """The trial's workload, with its batch size."""
    return _title(summary.record, batch=True)


def work_of_all_batches(summary: TrialSummary) -> str:
    """The trial's workload without its batch size."""
    return _title(summary.record, batch=False)


def work_on_any_device(summary: TrialSummary) -> str:
    """The trial's workload, without the device on which it ran."""
    return _work(summary.record, batch=True) + _rest(summary.record)


def _title(record: Record, *, batch: bool) -> str:
    return f"{_work(record, batch=batch)}, {_device(record)}{_rest(record)}"


def _work(record: Record, *, batch: bool) -> str:
    workload = record.workload
    parts = [
        f"{workload.model} on {workload.dataset}",
        workload.mode,
        *([f"batch {workload.batch_size}"] if batch else []),
        workload.precision,
        *([workload.loss.replace("_", " ")] if workload.loss != "cross_entropy" else []),
        workload.way,
        *([f"weights {workload.weights_sha256[:8]}"] if workload.weights_sha256 else []),
        *([f"input from {workload.input}"] if workload.mode == "train" else []),
    ]
    return ", ".join(parts)


def _rest(record: Record) -> str:
    synchronized = record.workload.batch_norm == "synchronized"
    return (", synchronized batch norm" if synchronized else "") + (
        f", {record.interleaved} interleaved" if record.interleaved > 1 else ""
    )


def _device(record: Record) -> str:
    cores = _cores(record.cores)
    quota = record.environment.get("cpu_quota")
    return f"{record.device} ({cores}{f', quota of {quota:g} CPUs' if quota else ''})"


def _cores(count: int) -> str:
    return f"{count} core{'s' if count != 1 else ''}"


def machine_of(record: Record) -> str:
    """The machine in short: the processor, its cores, the GPUs, and the engine."""
    found = record.environment
    cores = _cores(len(found.get("cpus") or []))
    names = Counter(str(gpu.get("name")) for gpu in found.get("gpus") or ())
    gpus = [f"{count} x {name}" for name, count in names.items()]
    quota = [f"a quota of {found['cpu_quota']:g} CPUs"] if found.get("cpu_quota") else []
    parts = [str(found.get("cpu") or "an unknown processor"), cores, *quota, *gpus]
    return ", ".join([*parts, f"engine {record.engine}"])


def made_with(records: Sequence[Record]) -> str:
    """The machine of a run, and the version of dlsuite."""
    return f"{machine_of(records[0])}, dlsuite {records[0].environment.get('dlsuite', '')}"


def name_of(summary: TrialSummary) -> str:
    """The framework's title, the variant, and the track where it is not `equal`."""
    record = summary.record
    track = "" if record.track == "equal" else f", {record.track}"
    return f"{framework_of(record)} {record.variant}{track}"


def framework_of(record: Record) -> str:
    """The framework's title; its name where it is unknown here, as in an imported run."""
    try:
        return catalog.framework(record.framework).title
    except UsageError:
        return record.framework


def row_of(summary: TrialSummary) -> str:
    """The trial's name among those of its title: its configuration, and its batch size."""
    return summary.record.configuration + batch_of(summary)


def batch_of(summary: TrialSummary) -> str:
    """`, batch 64` in scenario offline, where a title has several batch sizes; else empty."""
    workload = summary.record.workload
    return f", batch {workload.batch_size}" if workload.scenario == "offline" else ""
