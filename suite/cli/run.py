"""The commands `run`, `resume` and `convergence`."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from suite.cli.grouped import grouped
from suite.cli.groups import Choice, Machines, Measuring, Output, OwnWork, Resources
from suite.cli.options import Busy, Frameworks, IfBusy, Models, Results, RunName
from suite.cli.session import engine_on, progress, resumable, run_folder_of, show
from suite.datasets.inputs import Inputs
from suite.engines import sessions
from suite.engines.options import EngineOptions
from suite.errors import ParityFailed, RunsFailed, UsageError
from suite.manifests.devices import ReferenceChoice
from suite.manifests.workloads import Precision
from suite.protocol.plan import Plan, Work
from suite.report import convergence_table, ladder, run_data
from suite.report.convergence import MARGIN, rows
from suite.report.html import page
from suite.report.live import Live
from suite.results import checksums, rental, store
from suite.results.record import Record
from suite.results.signature import Signer
from suite.results.store import RunFolder
from suite.runner import planfile, stages
from suite.runner.estimate import estimate
from suite.runner.planfile import Planned
from suite.runner.planning import plan_of
from suite.runner.run_options import RunOptions
from suite.runner.runner import Runner
from suite.runner.series import failures
from suite.runner.timelimit import TimeLimit


@grouped
def run(
    suite: Annotated[
        str, typer.Argument(help="A suite's name, papers/NAME (dlsuite list), or a .yaml file.")
    ],
    choice: Choice,
    own_work: OwnWork,
    measuring: Measuring,
    resources: Resources,
    machines: Machines,
    output: Output,
) -> None:
    """Run a suite: prove that the frameworks do the same work, measure them, show the table.

    Example: dlsuite run quick --framework pytorch --framework pytorch:compiled
    """
    options = RunOptions(
        frameworks=tuple(choice.framework or ()),
        models=tuple(choice.model or ()),
        weights=own_work.weights,
        data=own_work.dataset(),
        loss=own_work.loss,
        scenarios=tuple(measuring.scenario or ()),
        tracks=tuple(choice.track or ()),
        precision=choice.precision,
        batch_size=measuring.batch_size,
        epochs=measuring.epochs,
        scale=measuring.scale,
        repeats=measuring.repeats,
        proof_steps=measuring.proof_steps,
        interleave=measuring.interleaving,
        verify_runs=measuring.verify_runs,
        full_durations=measuring.full_durations,
        devices=tuple(machines.devices or ()),
        nodes=machines.node_count,
        batch_norm="synchronized" if machines.sync_batch_norm else None,
    )
    engine = resources.options(machines)
    plan = plan_of(
        suite,
        options,
        device=engine.device,
        separate_nodes=engine.separate_nodes,
        notify=partial(print, file=sys.stderr),
    )
    start(
        plan,
        engine,
        TimeLimit.of(measuring.max_time or plan.max_time),
        results=output.results,
        if_busy=resources.if_busy,
        fresh_peak=measuring.fresh_peak,
        reference=measuring.reference,
        signer=output.signer(),
    )


@grouped
def resume(output: Output, run: RunName = Path("latest"), if_busy: Busy = IfBusy.wait) -> None:
    """Finish a run that was interrupted or killed; complete runs are not repeated.

    Example: dlsuite resume results/20261121-120000-quick
    """
    folder = RunFolder(run_folder_of(run, output.results))
    planned = planfile.read(folder.path)
    done = store.read_all(folder.path)
    signer = output.signer()
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


@grouped
def convergence(
    resources: Resources,
    framework: Frameworks = None,
    model: Models = None,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds; default: 5.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Whole epochs; default: the suite's.")] = None,
    precision: Annotated[
        Precision | None, typer.Option("--precision", help="Only this one; default: both.")
    ] = None,
    results: Results = Path("results"),
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
    engine = resources.options()
    plan = plan_of("convergence", options, device=engine.device)
    start(plan, engine, TimeLimit.of(None), results=results, if_busy=resources.if_busy)


def start(
    plan: Plan,
    resources: EngineOptions,
    limit: TimeLimit,
    *,
    results: Path,
    if_busy: IfBusy,
    fresh_peak: bool = False,
    reference: ReferenceChoice = "auto",
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
        if plan.staged:  # whose limit of time is that of the runs
            plan = stages.on_devices(replace(plan, max_time=limit.text), engine_used.host)
            limit = TimeLimit.of(None)
        plan, inputs = _prepared(runner, plan, limit.started(), reference, live)
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
    runner: Runner, plan: Plan, limit: TimeLimit, reference: ReferenceChoice, live: Live
) -> tuple[Plan, dict[Work, Inputs]]:
    """The plan within the limit of time, and its inputs; the estimate is shown on the way.

    Trials are left out twice: before the start, as if every proof were in the cache, so that only
    what may run is prepared; and afterwards, when the proofs in the cache are known.
    """
    engine = runner.engine
    proofs = frozenset(trial.proof_trial.trial_id for trial in plan.trials)
    kind = plan.trials[0].devices.kind
    expected = plan if reference == "cpu" else plan.with_reference(kind)
    chosen = limit.fitting(estimate(expected, engine, proofs, peak_known=True))
    first = estimate(chosen, engine)
    live.announce(f"{plan.suite}: {first}")
    live.estimated(first)
    inputs = runner.prepare(chosen)
    chosen = runner.placed(chosen, inputs, reference)
    known = partial(
        estimate,
        engine=engine,
        proven=runner.proven(chosen, inputs),
        gpu_flops=runner.gpu_flops(chosen, inputs) if chosen.peak else {},
        peak_known=runner.peak_known(chosen),
    )
    chosen = limit.noted(limit.fitting(known(chosen)), plan)
    final = known(chosen)
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
