"""The commands `run`, `resume` and `convergence`."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from suite.cli.options import (
    Busy,
    ColorModeChoice,
    Crop,
    Data,
    DeviceSets,
    Engine,
    EngineName,
    Frameworks,
    GpuChoice,
    Hosts,
    IfBusy,
    ImagesFolder,
    Keep,
    Key,
    Labels,
    LossChoice,
    MemoryLimit,
    MissingValues,
    Models,
    Nodes,
    PrecisionChoice,
    Pythons,
    Resize,
    Results,
    RunName,
    Sbatch,
    Scenarios,
    Sign,
    Split,
    SyncBatchNorm,
    Target,
    Tracks,
    WeightsFile,
    engine_options,
    node_count,
)
from suite.cli.session import engine_on, progress, resumable, run_folder_of, show
from suite.datasets import own
from suite.datasets.inputs import Inputs
from suite.datasets.own_images import Sizes
from suite.engines import sessions
from suite.engines.options import EngineOptions
from suite.errors import ParityFailed, RunsFailed, UsageError
from suite.manifests.workloads import Precision
from suite.protocol.plan import Plan, Work
from suite.report import convergence_table, ladder, run_data
from suite.report.convergence import MARGIN, rows
from suite.report.html import page
from suite.report.live import Live
from suite.results import checksums, rental, signature, store
from suite.results.record import Record
from suite.results.signature import Signer
from suite.results.store import RunFolder
from suite.runner import planfile
from suite.runner.estimate import estimate
from suite.runner.planfile import Planned
from suite.runner.planning import RunOptions, plan_of
from suite.runner.runner import Runner
from suite.runner.series import failures
from suite.runner.timelimit import TimeLimit


def run(
    suite: Annotated[
        str, typer.Argument(help="A suite's name, papers/NAME (dlsuite list), or a .yaml file.")
    ],
    framework: Frameworks = None,
    model: Models = None,
    weights: WeightsFile = None,
    data: Data = None,
    target: Target = None,
    loss: LossChoice = None,
    labels: Labels = None,
    split: Split = own.Options.split,
    missing: MissingValues = "refuse",
    resize: Resize = None,
    crop: Crop = None,
    color_mode: ColorModeChoice = None,
    scenario: Scenarios = None,
    batch_size: Annotated[int | None, typer.Option(help="Default: the suite's.")] = None,
    track: Tracks = None,
    precision: PrecisionChoice = None,
    epochs: Annotated[
        int | None, typer.Option(help="Whole epochs of the first run of each trial; 0: none.")
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option(
            help="Share of the suite's epochs; below one epoch, a part of the data: 0.01."
        ),
    ] = None,
    repeats: Annotated[int | None, typer.Option(help="Runs of each trial.")] = None,
    interleave: Annotated[
        bool,
        typer.Option("--interleave", help="Run a workload's trials at once, block by block."),
    ] = False,
    no_interleave: Annotated[
        bool,
        typer.Option("--no-interleave", help="One run after the other, whatever the suite has."),
    ] = False,
    proof_steps: Annotated[
        int | None, typer.Option(help="Training steps to compare; default: the suite's.")
    ] = None,
    verify_runs: Annotated[
        bool,
        typer.Option("--verify-runs", help="Prove the last steps of every run."),
    ] = False,
    full_durations: Annotated[
        bool,
        typer.Option(
            "--full-durations",
            help="Inference: 600 s and 24,576 queries in each run, as MLPerf; takes days.",
        ),
    ] = False,
    devices: DeviceSets = None,
    nodes: Nodes = None,
    sync_batch_norm: SyncBatchNorm = False,
    sbatch: Sbatch = None,
    images: ImagesFolder = None,
    hosts: Hosts = None,
    fresh_peak: Annotated[
        bool,
        typer.Option("--fresh-peak", help="Measure the hardware peak again; it is kept for a day."),
    ] = False,
    max_time: Annotated[
        str | None,
        typer.Option(help="Leave out the least important trials: 1h, 90m, 1h30m, 3600s."),
    ] = None,
    results: Results = Path("results"),
    engine: EngineName = Engine.auto,
    gpus: GpuChoice = "0",
    python: Pythons = None,
    memory: MemoryLimit = None,
    keep: Keep = False,
    if_busy: Busy = IfBusy.wait,
    sign: Sign = False,
    key: Key = None,
) -> None:
    """Run a suite: prove that the frameworks do the same work, measure them, show the table.

    Example: dlsuite run quick --framework pytorch --framework pytorch:compiled
    """
    if data and own.is_path(data):
        sizes = Sizes(resize=resize, crop=crop, color_mode=color_mode)
        reading = own.Options(
            target=tuple(target or ()),
            loss=loss,
            labels=labels,
            split=split,
            missing=missing,
            sizes=sizes,
        )
        data = own.register(Path(data), reading, partial(print, file=sys.stderr))
    options = RunOptions(
        frameworks=tuple(framework or ()),
        models=tuple(model or ()),
        weights=weights,
        data=data,
        loss=loss,
        scenarios=tuple(scenario or ()),
        tracks=tuple(track or ()),
        precision=precision,
        batch_size=batch_size,
        epochs=epochs,
        scale=scale,
        repeats=repeats,
        proof_steps=proof_steps,
        interleave=_interleave(interleave, no_interleave),
        verify_runs=verify_runs,
        full_durations=full_durations,
        devices=tuple(devices or ()),
        nodes=node_count(nodes, hosts),
        batch_norm="synchronized" if sync_batch_norm else None,
    )
    resources = engine_options(
        engine,
        gpus,
        python,
        memory,
        keep=keep,
        nodes=nodes,
        sbatch=sbatch,
        images=images,
        hosts=hosts,
    )
    separate = resources.separate_nodes
    notify = partial(print, file=sys.stderr)
    plan = plan_of(suite, options, device=resources.device, separate_nodes=separate, notify=notify)
    limit = TimeLimit.of(max_time or plan.max_time)
    signer = signature.signer(key) if sign or key else None
    start(
        plan,
        resources,
        limit,
        results=results,
        if_busy=if_busy,
        fresh_peak=fresh_peak,
        signer=signer,
    )


def _interleave(asked: bool, refused: bool) -> bool | None:
    """The user's choice; None where there is none."""
    if asked and refused:
        raise UsageError(
            "--interleave and --no-interleave exclude each other", hint="omit one of them"
        )
    return True if asked else False if refused else None


def resume(
    run: RunName = Path("latest"),
    results: Results = Path("results"),
    if_busy: Busy = IfBusy.wait,
    sign: Sign = False,
    key: Key = None,
) -> None:
    """Finish a run that was interrupted or killed; complete runs are not repeated.

    Example: dlsuite resume results/20261121-120000-quick
    """
    folder = RunFolder(run_folder_of(run, results))
    planned = planfile.read(folder.path)
    done = store.read_all(folder.path)
    signer = signature.signer(key) if sign or key else None
    if not planfile.missing(folder.path, done):
        checksums.complete(folder.path)
        conclude(done, folder, signer)
        return
    plan, session_id = planned.plan, planned.session_id
    with (
        progress() as live,
        engine_on(
            planned.engine_options,
            plan.frameworks,
            live,
            session_id=session_id,
            if_busy=if_busy,
            shared=plan.for_accuracies,
        ) as (engine_used, work_dir),
    ):
        done = store.read_all(folder.path)  # another process may have finished runs meanwhile
        runner = Runner(engine_used, live, work_dir)
        inputs = runner.prepare(plan, done=done)
        planned.must_match(runner.engine, runner.frameworks.locks, inputs, folder.path)
        with resumable(folder.path):
            records = runner.run(
                plan, inputs, folder, done=done, sign=signer.sign if signer else None
            )
    conclude(records, folder, signer)


def convergence(
    framework: Frameworks = None,
    model: Models = None,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds; default: 5.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Whole epochs; default: the suite's.")] = None,
    precision: Annotated[
        Precision | None, typer.Option("--precision", help="Only this one; default: both.")
    ] = None,
    results: Results = Path("results"),
    engine: EngineName = Engine.auto,
    gpus: GpuChoice = "0",
    python: Pythons = None,
    memory: MemoryLimit = None,
    keep: Keep = False,
    if_busy: Busy = IfBusy.wait,
) -> None:
    """Train models with several seeds, and test whether the accuracies are equivalent (hours).

    Precisions are compared in each framework, frameworks in float32. dlsuite resume finishes an
    interrupted run, dlsuite report shows its table.

    Example: dlsuite convergence --model lenet --framework pytorch --framework jax --seeds 3
    """
    if epochs is not None and epochs < 1:
        raise UsageError(f"--epochs is {epochs}; the minimum is 1", hint="--epochs 1")
    options = RunOptions(
        frameworks=tuple(framework or ()),
        models=tuple(model or ()),
        precision=precision,
        epochs=epochs,
        seeds=seeds,
    )
    resources = engine_options(engine, gpus, python, memory, keep=keep)
    plan = plan_of("convergence", options, device=resources.device)
    start(plan, resources, TimeLimit.of(None), results=results, if_busy=if_busy)


def start(
    plan: Plan,
    resources: EngineOptions,
    limit: TimeLimit,
    *,
    results: Path,
    if_busy: IfBusy,
    fresh_peak: bool = False,
    signer: Signer | None = None,
) -> Path:
    """Do all runs of a new plan within the limit of time, show their table; return their folder."""
    rental.of_variable()  # a file that is none is an error now, not after the first run
    session_id = sessions.new_id()
    with (
        store.run_folder(results, plan.suite) as folder,
        progress() as live,
        engine_on(
            resources,
            plan.frameworks,
            live,
            session_id=session_id,
            if_busy=if_busy,
            shared=plan.for_accuracies,
        ) as (engine_used, work_dir),
    ):
        runner = Runner(engine_used, live, work_dir)
        plan, inputs = _prepared(runner, plan, limit.started(), live)
        planned = Planned(
            session_id=session_id,
            engine_options=replace(resources, engine=runner.engine.name),
            worker_sha256=runner.engine.worker_sha256,
            locks=runner.frameworks.locks,
            plan=plan,
            machine=planfile.machine_of(runner.engine.host),
            inputs_sha256=planfile.inputs_digest(inputs),
        )
        with folder.writing(planfile.NAME):
            planfile.write(folder.path, planned)
            if plan.suite == ladder.SUITE:
                ladder.keep(folder.path)
        with resumable(folder.path):
            records = runner.run(
                plan, inputs, folder, fresh_peak=fresh_peak, sign=signer.sign if signer else None
            )
    conclude(records, folder, signer)
    return folder.path


def _prepared(
    runner: Runner, plan: Plan, limit: TimeLimit, live: Live
) -> tuple[Plan, dict[Work, Inputs]]:
    """The plan within the limit of time, and its inputs; the estimate is shown on the way.

    Trials are left out twice: before the start, as if every proof were in the cache, so that only
    what may run is prepared; and afterwards, when the proofs in the cache are known.
    """
    engine = runner.engine
    proofs = frozenset(trial.proof_trial.trial_id for trial in plan.trials)
    chosen = limit.fitting(estimate(plan, engine, proofs, peak_known=True))
    first = estimate(chosen, engine)
    live.announce(f"{plan.suite}: {first}")
    live.estimated(first)
    inputs = runner.prepare(chosen)
    proven, peak_known = runner.proven(chosen, inputs), runner.peak_known(chosen)
    chosen = limit.fitting(estimate(chosen, engine, proven, peak_known=peak_known))
    chosen = limit.noted(chosen, plan)
    final = estimate(chosen, engine, proven, peak_known=peak_known)
    if str(final) != str(first):
        live.announce(f"with the proofs in the cache: {final}")
    for note in chosen.notes:
        live.announce(f"note: {note}")
    live.estimated(final)
    # Without those of trials that were left out: `resume` prepares only what the plan has.
    return chosen, {work: inputs[work] for work in chosen.input_works}


def conclude(records: list[Record], folder: RunFolder, signer: Signer | None = None) -> None:
    """Write the page of a finished plan, show its table, and name the page in the last line.

    Then the run is signed, where there is a signer.

    Raise an error where runs failed, are not proven, or differ in accuracy.
    """
    page_line = None
    try:
        page_line = _write_page(folder) if records else None
        signature = signer.sign(folder.path / checksums.NAME) if signer else None
    finally:  # the table also where the page cannot be written
        show(records, folder.path)
    if page_line:
        print(page_line)
    if signature:
        print(f"signed: {signature}")
    bad = failures(records)
    if bad or not any(each.status == "ok" for each in records):
        raise RunsFailed(
            f"{len(bad) or len(records)} of {len(records)} runs failed; "
            "each has a record with the reason",
            hint=f"dlsuite report {folder.path}",
        )
    unproven = [each for each in records if each.status == "ok" and not each.parity.proven]
    if unproven:
        names = sorted({each.configuration for each in unproven})
        raise ParityFailed(
            f"measured, but not proven to be the same work: {', '.join(names)}",
            hint=f"dlsuite parity --model {unproven[0].workload.model}",
        )
    different = [
        convergence_table.name_of(row)
        for row in rows(records)
        if row.equivalence and row.equivalence.verdict == "no"
    ]
    if different:
        raise ParityFailed(
            f"accuracy differs by more than {MARGIN} points: {', '.join(different)}",
            hint=f"dlsuite report {folder.path}",
        )


def _write_page(folder: RunFolder) -> str | None:
    """Write the page of a run; return a line that names it.

    Where a figure cannot be drawn, a message says so: the records and the exit code stay. In a
    read-only folder, that of a finished run, and in a signed one the page stays as it is.
    """
    path = folder.path / page.NAME
    if not os.access(folder.path, os.W_OK) or (folder.path / checksums.SIGNATURE).exists():
        return None
    try:
        with folder.writing(page.NAME):
            # In the order in which everybody reads them, so that `verify` makes the same page.
            page.write(path, run_data.of(folder.path, store.read(folder.path)))
            checksums.add(folder.path, page.NAME)
    except ValueError as error:  # of vl-convert
        reason = str(error).partition("\n")[0]
        print(f"{path} is not written, a figure cannot be drawn: {reason}", file=sys.stderr)
        return None
    return f"report: {path}"
