"""What a worker said becomes the record of its run. Pure."""

from __future__ import annotations

from typing import Any

from suite import events, telemetry
from suite.attempt import Attempt
from suite.engines.base import Event, Prepared
from suite.inputs import Inputs
from suite.plan import Plan, Run
from suite.records import Block, Epoch, Memory, Parity, Record, Times


def record(
    plan: Plan,
    run: Run,
    done: Attempt,
    *,
    run_id: str,
    engine: str,
    prepared: Prepared | None,
    given: Inputs,
    mark: Parity,
    host: dict[str, Any],
    turns: int,
) -> Record:
    """The record of `run`, which ended as `done`; `prepared` is None where it could not start."""
    trial, work = run.trial, run.trial.workload
    started, built = events.one(done.events, "started"), events.one(done.events, "built")
    worker = {"versions": started.get("versions"), "device": built.get("device")}
    lock_sha256 = prepared.lock_sha256 if prepared else None
    return Record(
        run_id=run_id,
        suite=plan.suite,
        trial_id=trial.trial_id,
        framework=trial.framework,
        framework_version=started.get("framework_version"),
        variant=trial.variant,
        track=trial.track,
        conditions=trial.conditions,
        model=work.model,
        parameters=built.get("parameters"),
        flops_per_sample=given.architecture.flops_per_sample(work.mode),
        bytes_per_sample=given.architecture.bytes_per_sample(work.mode, work.batch_size),
        dataset=work.dataset,
        data_origin=given.origin,
        input=work.input,
        mode=work.mode,
        batch_size=work.batch_size,
        precision=work.precision,
        optimizer=work.optimizer.model_dump(),
        device=trial.device,
        repeat=run.repeat,
        seed=trial.seed,
        measure=plan.measure,
        repeats=plan.repeats,
        turns=turns,
        status=done.status,
        error=done.error,
        engine=engine,
        image_id=prepared.image_id if prepared else None,
        environment={
            **host,
            "worker": worker,
            "lock_sha256": lock_sha256,
            "own_python": prepared.own_python if prepared else None,
        },
        parity=mark,
        log=f"logs/{run.name}.log" if prepared else None,
        **measured(done, work.batch_size),
    )


def measured(done: Attempt, batch_size: int) -> dict[str, Any]:
    """The figures in a worker's events, as the record's fields."""
    said = done.events
    blocks = tuple(
        Block(warmup=event["event"] == "warmup", **_fields(event, Block, "warmup"))
        for event in said
        if event["event"] in ("warmup", "block")
    )
    warmup_s = sum(block.duration_s for block in blocks if block.warmup)
    steady = [block for block in blocks if not block.warmup]
    measured_s = sum(block.duration_s for block in steady)
    samples = sum(block.steps for block in steady) * batch_size
    times = Times(
        import_s=events.one(said, "started").get("import_s"),
        build_s=events.one(said, "built").get("build_s"),
        first_step_s=events.one(said, "compiled").get("first_step_s"),
        synchronize_s=events.one(said, "compiled").get("synchronize_s"),
        warmup_s=warmup_s if blocks else None,
        measured_s=measured_s if steady else None,
        total_s=done.total_s,
        engine_s=done.engine_s,
    )
    return {
        "times": times,
        "blocks": blocks,
        "steady": events.one(said, "warm").get("steady"),
        "samples_per_s": samples / measured_s if steady else None,
        "steps": events.one(said, "trained").get("steps"),
        "optimizer_steps": events.one(said, "trained").get("optimizer_steps"),
        "epochs": tuple(Epoch(**_fields(each, Epoch)) for each in events.of(said, "epoch")),
        "telemetry": telemetry.summarise(done.samples, said, trained=samples) if steady else None,
        "memory": Memory(**_fields(events.one(said, "memory"), Memory)),
    }


def _fields(event: Event, schema: type[Block | Epoch | Memory], *left_out: str) -> dict[str, Any]:
    return {k: event[k] for k in schema.model_fields if k in event and k not in left_out}
