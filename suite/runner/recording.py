"""Makes the record of a run from the events of its worker."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable
from typing import Any

import suite
from suite.datasets.inputs import Inputs
from suite.engines.attempt import Attempt, RankOutput
from suite.engines.base import Engine, Prepared
from suite.manifests.workloads import Workload
from suite.models.architecture import Architecture
from suite.protocol import events
from suite.protocol.events import Event
from suite.protocol.plan import Plan, Run
from suite.results import rental
from suite.results.blocks import COLUMNS, Block, Blocks, counted
from suite.results.record import (
    Epoch,
    Inference,
    Memory,
    Parity,
    Rank,
    RateTried,
    Record,
    Throttling,
    Times,
)
from suite.results.telemetry import Telemetry
from suite.runner import stopping, telemetry


def record(
    plan: Plan,
    run: Run,
    attempt: Attempt,
    *,
    run_id: str,
    engine: Engine,
    prepared: Prepared | None,
    inputs: Inputs,
    parity: Parity,
    interleaved: int,
) -> Record:
    """The record of `run`; `prepared` is None where its framework is unavailable."""
    trial, workload = run.trial, run.trial.workload
    started, built = events.one(attempt.events, "started"), events.one(attempt.events, "built")
    return Record(
        run_id=run_id,
        suite=plan.suite,
        trial_id=trial.trial_id,
        framework=trial.framework,
        framework_version=started.get("framework_version"),
        variant=trial.variant,
        track=trial.track,
        runtime=trial.runtime,
        workload=workload,
        parameters=built.get("parameters"),
        flops_per_sample=inputs.architecture.flops_per_sample(workload.mode),
        bytes_per_sample=bytes_per_sample(inputs.architecture, workload, trial.devices.ranks),
        data_origin=inputs.origin,
        device=trial.device,
        cpu_parts=trial.cpu_parts,
        repeat=run.repeat,
        seed=trial.seed,
        measure=plan.measure,
        repeats=stopping.repeats_of(plan, trial),
        interleaved=interleaved,
        status=attempt.status,
        error=attempt.error,
        engine=engine.name,
        image_id=prepared.image_id if prepared else None,
        environment=_environment(engine, prepared, started, built),
        parity=parity,
        log=f"logs/{run.name}.log" if prepared and attempt.total_s is not None else None,
        **measured(attempt, workload.batch_size, plan.measure.min_measure_s, run.name),
    )


def bytes_per_sample(model: Architecture, workload: Workload, ranks: int = 1) -> float:
    """The minimum traffic between devices and their memories; each rank moves all weights."""
    value_bytes = 2 if workload.precision == "bf16_mixed" else 4
    of_rank = workload.batch_size // ranks
    parts = workload.accumulate
    return model.bytes_per_sample(workload.mode, of_rank, value_bytes, accumulate=parts)


def _environment(
    engine: Engine, prepared: Prepared | None, started: Event, built: Event
) -> dict[str, Any]:
    """Where the record was made: versions, machine, device. Unknown values are null."""
    return {
        "dlsuite": suite.__version__,
        "python": platform.python_version(),
        **engine.host,
        "worker": {"versions": started.get("versions"), "device": built.get("device")},
        "lock_sha256": prepared.lock_sha256 if prepared else None,
        "own_python": prepared.own_python if prepared else None,
        rental.FACT: rental.of_variable(),
    }


def measured(
    attempt: Attempt, batch_size: int, min_measure_s: float, name: str = ""
) -> dict[str, Any]:
    """The figures in a worker's events, as fields of the record of the run with this name."""
    reported = attempt.events
    blocks = [_block(event) for event in reported if event["event"] in ("warmup", "block")]
    steady = counted(blocks, min_measure_s)
    left_out = len(steady) < sum(not block.warmup for block in blocks)
    measured_s = sum(block.duration_s for block in steady)
    samples = sum(block.steps for block in steady) * batch_size
    inferred = events.one(reported, "inference")
    warmed = events.one(reported, "warmed")
    if inferred:
        measured_s, samples = inferred["duration_s"], inferred["samples"]
    rate = samples / measured_s if steady else inferred.get("samples_per_s")
    warmup_s = sum(block.duration_s for block in blocks if block.warmup)
    return {
        "times": _times(
            attempt, warmup_s if blocks else warmed.get("duration_s"), measured_s or None
        ),
        "blocks": Blocks.of(blocks),
        "steady": (events.one(reported, "warm") or warmed).get("steady"),
        "samples_per_s": rate,
        "inference": _inference(reported) if inferred else None,
        "throttling": _throttling(reported),
        "steps": events.one(reported, "trained").get("steps"),
        "optimizer_steps": events.one(reported, "trained").get("optimizer_steps"),
        "epochs": tuple(
            Epoch(**_fields(each, Epoch.model_fields)) for each in events.of(reported, "epoch")
        ),
        "telemetry": _telemetry(attempt.ranks[0], samples, left_out=left_out) if rate else None,
        "memory": _together([_memory(each.events) for each in attempt.ranks]),
        "ranks": _ranks(attempt, samples if rate else 0, name, left_out=left_out),
    }


def _block(event: Event) -> Block:
    """A block by its event; a worker in another language may not measure disturbances."""
    disturbance = event.get("disturbance") or {}
    return Block(
        warmup=event["event"] == "warmup",
        **_fields(event, COLUMNS, "warmup"),
        **_fields(disturbance, COLUMNS),
    )


def _throttling(reported: list[Event]) -> Throttling | None:
    """The periods of the CPU quota in the timed blocks or queries; None without a quota."""
    timed = events.of(reported, "block") or events.of(reported, "inference")
    found = [each["disturbance"] for each in timed if each.get("disturbance")]
    periods = sum(each["periods"] for each in found)
    throttled = sum(each["throttled_periods"] for each in found)
    return Throttling(periods=periods, throttled_periods=throttled) if periods else None


def _times(attempt: Attempt, warmup_s: float | None, measured_s: float | None) -> Times:
    reported = attempt.events
    compiled = events.one(reported, "compiled")
    return Times(
        import_s=events.one(reported, "started").get("import_s"),
        build_s=events.one(reported, "built").get("build_s"),
        first_step_s=compiled.get("first_step_s")
        or events.one(reported, "first_inference").get("duration_s"),
        synchronize_s=compiled.get("synchronize_s"),
        warmup_s=warmup_s,
        measured_s=measured_s,
        exchange_s=events.one(reported, "exchanged").get("duration_s"),
        total_s=attempt.total_s,
        engine_s=attempt.engine_s,
    )


def _telemetry(rank: RankOutput, samples: int, *, left_out: bool) -> Telemetry | None:
    """The telemetry over the blocks that make the rate; `left_out`: without the disturbed ones."""
    kept = [each for each in rank.events if not (left_out and each.get("disturbed"))]
    return telemetry.summarise(rank.samples, kept, processed=samples)


def _ranks(attempt: Attempt, samples: int, name: str, *, left_out: bool) -> tuple[Rank, ...]:
    """The figures of each rank of the run with this name; none of a run with one rank.

    `samples`: those of the timed blocks; 0 where there is no rate.
    """
    if len(attempt.ranks) == 1:
        return ()
    return tuple(
        Rank(
            rank=rank,
            memory=_memory(each.events),
            telemetry=_telemetry(each, samples, left_out=left_out) if samples else None,
            log=f"logs/{name}{rank_suffix(rank)}.log",
        )
        for rank, each in enumerate(attempt.ranks)
    )


def rank_suffix(rank: int) -> str:
    """What follows the name of a run in the names of a rank's files."""
    return f".rank{rank}" if rank else ""


def _memory(reported: list[Event]) -> Memory:
    return Memory(**_fields(events.one(reported, "memory"), Memory.model_fields))


def _together(memories: list[Memory]) -> Memory:
    """Of all ranks: the sum on the host, the largest on a device; unknown where one is."""
    hosts = [each.host_rss_peak_bytes for each in memories]
    used = [each.device_peak_bytes for each in memories]
    reserved = [each.device_reserved_bytes for each in memories]
    return Memory(
        host_rss_peak_bytes=_unless_unknown(sum, hosts),
        device_peak_bytes=_unless_unknown(max, used),
        device_reserved_bytes=_unless_unknown(max, reserved),
    )


def _unless_unknown(combine: Callable[[list[int]], int], values: list[int | None]) -> int | None:
    """The values combined; None where one is unknown."""
    known = [value for value in values if value is not None]
    return combine(known) if len(known) == len(values) else None


def _fields(event: Event, names: Iterable[str], *omitted: str) -> dict[str, Any]:
    """The values of an event that have one of these names, without those in `omitted`."""
    return {name: event[name] for name in names if name in event and name not in omitted}


def _inference(reported: list[Event]) -> Inference:
    """The timed queries of a worker with these events."""
    values = _fields(events.one(reported, "inference"), Inference.model_fields)
    return Inference(
        **values,
        call_s=events.one(reported, "warmed").get("call_s"),
        overhead_s=events.one(reported, "overhead").get("latency_s"),
        rates=tuple(
            RateTried(**_fields(each, RateTried.model_fields))
            for each in events.of(reported, "rate")
        ),
    )
