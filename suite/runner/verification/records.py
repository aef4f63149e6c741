"""Checks a record against the plan, its own blocks and the model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from suite.protocol.plan import Trial
from suite.results.record import Record
from suite.runner import plausibility, stopping
from suite.runner.recording import bytes_per_sample
from suite.runner.verification.context import Context
from suite.runner.verification.findings import Finding, compared, finding

if TYPE_CHECKING:
    from suite.runner.verification.inputs import Known

PEAK = "times the measured peak"  # in the message about a rate above it
OF_TRIAL = ("framework", "variant", "track", "runtime", "device", "workload", "seed", "cpu_parts")


def check(where: str, record: Record, context: Context) -> Iterator[Finding]:
    """What does not fit the plan; `where` is the record's file."""
    yield from compared(where, "name of the file", f"{record.name}.json", where)
    yield from compared(where, "trial_id", trial_of(record).trial_id, record.trial_id)
    run = context.runs.get(record.name)
    if run is None:
        yield finding(where, "run", "one of the plan", record.name)
        return
    plan, trial = context.planned.plan, run.trial
    expected = {name: _plain(getattr(trial, name)) for name in OF_TRIAL}
    expected |= {
        "suite": plan.suite,
        "engine": context.planned.engine_options.engine,
        "measure": plan.measure.model_dump(),
        "repeats": stopping.repeats_of(plan, trial).model_dump(),
        "interleaved": record.interleaved if plan.interleave else 1,
    }
    found = {name: _plain(getattr(record, name)) for name in expected}
    yield from compared(where, "", expected, found)
    lock = record.environment.get("lock_sha256")
    if lock is not None:
        yield from compared(where, "lock_sha256", context.lock_sha256(record.framework), lock)


def check_figures(where: str, record: Record, known: Known) -> Iterator[Finding]:
    """Compare the figures of a record with those that its blocks and its model give."""
    yield from _of_queries(where, record) if record.inference else _of_blocks(where, record)
    described = known.get((record.workload.model, record.workload.dataset))
    if described is None:
        return
    if described.origin is not None:
        yield from compared(where, "data_origin", described.origin, record.data_origin)
    model = described.architecture
    if record.parameters is not None:
        yield from compared(where, "parameters", model.parameter_count, record.parameters)
    flops = model.flops_per_sample(record.workload.mode)
    yield from compared(where, "flops_per_sample", flops, record.flops_per_sample)
    traffic = bytes_per_sample(model, record.workload, record.devices.ranks)
    yield from compared(where, "bytes_per_sample", traffic, record.bytes_per_sample)


def _of_queries(where: str, record: Record) -> Iterator[Finding]:
    """The rate that the mean latency gives; of the other scenarios, only the events have it."""
    queries = record.inference
    if queries and queries.mean_s and record.workload.scenario != "server":
        rate = queries.samples / queries.queries / queries.mean_s
        yield from compared(where, "samples_per_s", rate, record.samples_per_s)


def _of_blocks(where: str, record: Record) -> Iterator[Finding]:
    """The rates and durations that the blocks give."""
    blocks, batch_size = record.blocks.rows(), record.workload.batch_size
    timed = record.counted_blocks
    warmup = [block.duration_s for block in blocks if block.warmup]
    measured_s = sum(block.duration_s for block in timed)
    rates = [block.steps * batch_size / block.duration_s for block in blocks]
    samples = sum(block.steps for block in timed) * batch_size
    yield from compared(where, "blocks.samples_per_s", rates, record.blocks.samples_per_s)
    expected = {
        "samples_per_s": samples / measured_s if timed else None,
        "measured_s": measured_s if timed else None,
        "warmup_s": sum(warmup) if blocks else None,
    }
    found = {
        "samples_per_s": record.samples_per_s,
        "measured_s": record.times.measured_s,
        "warmup_s": record.times.warmup_s,
    }
    yield from compared(where, "", expected, found)


def check_plausible(where: str, record: Record, context: Context) -> Iterator[Finding]:
    """Whether the figures of a run with status ok are possible, and only those."""
    run = context.runs.get(record.name)
    if run is None:
        return
    problem = plausibility.problem(record, run.epochs, context.peak)
    if record.status == "ok" and problem:
        yield finding(where, "status", f"failed ({problem.message})", "ok")
    error = record.error
    # The peak may have been measured again since a rate exceeded it.
    implausible = error is not None and error.error_class == plausibility.CLASS
    if error and implausible and PEAK not in error.message and not problem:
        yield finding(where, "status", "ok, its figures are possible", f"{error.message}")


def trial_of(record: Record) -> Trial:
    """The trial that the fields of a record describe."""
    return Trial(**{name: getattr(record, name) for name in OF_TRIAL})


def _plain(value: object) -> object:
    """A value as dicts and lists."""
    return value.model_dump() if hasattr(value, "model_dump") else value
