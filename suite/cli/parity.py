"""The commands `parity` and `selftest`: the proof of sameness, and the test of that proof."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Annotated

import typer

from suite.cli.grouped import grouped
from suite.cli.groups import Choice, Machines, Resources
from suite.cli.options import (
    Busy,
    Engine,
    EngineName,
    Frameworks,
    IfBusy,
    LossChoice,
    ParityFormat,
    Reference,
)
from suite.cli.session import engine_on, progress
from suite.datasets import obtain
from suite.datasets.inputs import Inputs
from suite.engines import sessions
from suite.engines.venv.engine import VenvEngine
from suite.errors import ParityFailed, UsageError
from suite.manifests.workloads import Workload
from suite.parity.certificates import Certificate
from suite.parity.tensors import ProofFailed
from suite.paths import home
from suite.protocol.plan import Plan, Trial, Work
from suite.report import parity_table, selftest_table, table
from suite.report.live import Live
from suite.runner.frameworks import Unavailable
from suite.runner.planning import plan_of
from suite.runner.run_options import RunOptions
from suite.runner.runner import Runner
from suite.runner.selftest import import_faults, workloads
from suite.runner.selftest import selftest as tests
from suite.runner.selftest.finding import Finding
from suite.runner.support import unsupported_reason


@grouped
def parity(
    choice: Choice,
    resources: Resources,
    machines: Machines,
    suite: Annotated[
        str | None,
        typer.Option(help="The suite to prove; default: quick, or zoo where a model is named."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="Instead of the suite's: a data set of dlsuite list, or synthetic."),
    ] = None,
    loss: LossChoice = None,
    steps: Annotated[
        int | None, typer.Option(help="Training steps to compare; default: the suite's (10).")
    ] = None,
    reference: Reference = "auto",
    format: Annotated[ParityFormat, typer.Option(help="table or markdown.")] = ParityFormat.table,
    fresh: Annotated[bool, typer.Option("--fresh", help="Ignore cached certificates.")] = False,
) -> None:
    """Compare each framework with a float64 reference over ten training steps.

    Example: dlsuite parity --model resnet50 --framework mxnet
    """
    engine_choice = resources.options(machines)
    options = RunOptions(
        frameworks=tuple(choice.framework or ()),
        models=tuple(choice.model or ()),
        data=data,
        loss=loss,
        tracks=tuple(choice.track or ()),
        precision=choice.precision,
        proof_steps=steps,
        devices=tuple(machines.devices or ()),
        nodes=machines.node_count,
        batch_norm="synchronized" if machines.sync_batch_norm else None,
    )
    plan = plan_of(
        suite or ("zoo" if choice.model else "quick"),
        options,
        device=engine_choice.device,
        separate_nodes=engine_choice.separate_nodes,
        notify=partial(print, file=sys.stderr),
    )
    plan = plan.proofs
    with (
        progress() as live,
        engine_on(
            engine_choice,
            plan.frameworks,
            live,
            session_id=sessions.new_id(),
            if_busy=resources.if_busy,
        ) as (engine_used, work_dir),
    ):
        runner = Runner(engine_used, live, work_dir)
        by_work = runner.prepare(plan, ("data", "environments", "parity"))
        plan = runner.placed(plan, by_work, reference)
        live.stage("parity")
        rows = [*_rows(runner, plan, by_work, fresh=fresh)]
    if format is ParityFormat.markdown:
        print(parity_table.markdown(rows))
    else:
        console = table.console()
        console.print(parity_table.render(rows, console.width))
    _check(rows)


def _check(rows: list[parity_table.Row]) -> None:
    """Raise ParityFailed where a trial that its framework supports is not proven."""
    failed = [row for row in rows if row[2] and unsupported_reason(row[0]) is None]
    if not failed:
        return
    trial, _, reason = failed[0]
    others = f" (and {len(failed) - 1} others below the table)" if len(failed) > 1 else ""
    crashed = any(certificate is None for _, certificate, _ in failed)
    hint = f"see the workers' logs in {home() / 'logs'}" if crashed else "docs/reference/proofs.md"
    raise ParityFailed(f"not proven: {_name(trial)}: {reason}{others}", hint=hint)


def _rows(
    runner: Runner, plan: Plan, by_work: dict[Work, Inputs], *, fresh: bool
) -> Iterator[parity_table.Row]:
    """Each trial with its certificate, and the reason where it is not proven."""
    for work, work_inputs in by_work.items():
        trials = [trial for trial in plan.trials if trial.work == work]
        certificates = runner.certify(trials, work_inputs, fresh=fresh)
        for trial in trials:
            found = certificates.get(trial.trial_id)
            framework = runner.frameworks.of(trial)
            if isinstance(found, Certificate):
                yield trial, found, found.reason
            elif found:
                yield trial, None, str(found)
            elif isinstance(framework, Unavailable):
                yield trial, None, framework.error.message


def _name(trial: Trial) -> str:
    return f"{trial.configuration} on {trial.workload.model}"


def selftest(
    framework: Frameworks = None,
    engine: EngineName = Engine.auto,
    if_busy: Busy = IfBusy.wait,
) -> None:
    """Insert faults into copies of the worker, one by one, and check that a proof finds each.

    Sixty-eight show in a certificate, nine of them in bf16_mixed, twelve in single layers, four in
    inference, eight on two ranks; eleven show only in a timed run. With the docker engine each
    fault gets an image, which is removed afterwards. With the engine venv and PyTorch, ten faults
    of an import follow. The self-test ends at the first fault that is not found, or at the first
    error that is found without a fault.
    """
    plan = plan_of("variants", RunOptions(frameworks=tuple(framework or ())), device="cpu")
    options = Resources(engine=engine).options()
    with (
        progress() as live,
        engine_on(
            options, plan.frameworks, live, session_id=sessions.new_id(), if_busy=if_busy
        ) as (engine_used, work_dir),
    ):
        runner = Runner(engine_used, live, work_dir)
        findings = _findings(runner, plan, live)
    table.console().print(selftest_table.render(findings))
    last = findings[-1]
    if not last.good:
        name = f"{last.fault or 'a false alarm'} ({last.framework})"
        raise ParityFailed(f"the self-test failed: {name}", hint="report it, with this table")


def _findings(runner: Runner, plan: Plan, live: Live) -> list[Finding]:
    """Run the self-test to its first failure; ParityFailed where there is no trusted reference."""
    try:
        prepared = runner.frameworks.with_reference(plan.frameworks)
    except ProofFailed as error:
        raise ParityFailed(str(error), hint="dlsuite doctor") from None
    available = tuple(
        trial
        for trial in plan.trials
        if trial.framework in prepared and unsupported_reason(trial) is None
    )

    if not available:
        raise UsageError(
            f"no training of {', '.join(plan.frameworks)} can be tested here", hint="dlsuite doctor"
        )

    def files(workload: Workload, name: str) -> Inputs:
        folder = runner.work_dir / name
        return obtain.obtain(workload, seed=1, folder=folder, notify=live.notify)

    test = tests.SelfTest(
        engine=runner.engine,
        prepared=prepared,
        make_engine=_engine_maker(runner.engine.name),
        inputs={
            each: files(each, f"inputs-{number}") for number, each in enumerate(workloads.WORKLOADS)
        },
        work_dir=runner.work_dir,
        notify=live.notify,
    )
    findings = []
    imports: Iterator[Finding] = iter(())
    if "pytorch" in plan.frameworks and runner.engine.name == "venv":
        imports = import_faults.findings(runner.engine, prepared, runner.work_dir, live.notify)
    try:
        for finding in chain(test.run(replace(plan, trials=available)), imports):
            live.announce(selftest_table.line(finding))
            findings.append(finding)
            if not finding.good:
                break
        return findings
    except ProofFailed as error:
        raise ParityFailed(str(error), hint="dlsuite doctor") from None


def _engine_maker(engine: str) -> tests.MakeEngine:
    """Makes an engine of this kind that runs the worker in a folder."""
    if engine == "slurm":
        raise UsageError("the self-test runs on one machine", hint="--engine venv")
    if engine == "docker":
        from suite.engines.docker.engine import engine_with_worker

        return engine_with_worker
    return VenvEngine
