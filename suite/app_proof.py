"""`parity` and `selftest`: the proof of sameness, and the proof's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from suite import inputs, owners, selftest
from suite.app_run import plan_of, progress, working
from suite.engines.choice import Wanted
from suite.engines.containers import faulty_containers
from suite.engines.venv import VenvEngine
from suite.errors import ParityFailed, UsageError
from suite.inputs import Inputs
from suite.manifest import PROOF_STEPS, Workload
from suite.owners import IfBusy
from suite.paths import home
from suite.plan import Plan, Trial
from suite.report import parity_table, selftest_table, table
from suite.runner import Runner
from suite.tensors import ProofFailed


def parity(
    suite: str | None,
    *,
    frameworks: list[str],
    models: list[str],
    tracks: list[str],
    steps: int,
    fresh: bool,
    as_markdown: bool,
    wanted: Wanted,
    if_busy: IfBusy,
) -> None:
    """Prove and print; ParityFailed where a framework is not proven.

    Without a suite: the zoo's workloads of `models`, or the quick suite's.
    """
    if steps < 1:
        raise UsageError(
            f"--steps is {steps}; at least 1 makes sense", hint=f"--steps {PROOF_STEPS}"
        )
    chosen = suite or ("zoo" if models else "quick")
    plan = plan_of(
        chosen, frameworks=frameworks, models=models, tracks=tracks, device=wanted.device
    )
    owner = owners.new_id()
    with (
        progress() as live,
        working(wanted, plan.frameworks, live, owner=owner, if_busy=if_busy) as (_, runner),
    ):
        runner.prepare(plan.frameworks)
        rows = [*_rows(runner, plan, steps=steps, fresh=fresh)]
    if as_markdown:
        print(parity_table.markdown(rows))
    else:
        table.console().print(parity_table.render(rows))
    failed = [f"{_name(trial)}: {reason}" for trial, _, reason in rows if reason]
    if failed:
        raise ParityFailed("; ".join(failed), hint=f"see the workers' logs in {home() / 'logs'}")


def _rows(runner: Runner, plan: Plan, *, steps: int, fresh: bool) -> Iterator[parity_table.Row]:
    """Each trial with its certificate, or why it is not proven, or both."""
    for workload, given in runner.inputs(plan).items():
        trials = [trial for trial in plan.trials if trial.workload == workload]
        try:
            certificates = runner.certify(trials, given, steps=steps, fresh=fresh)
        except ProofFailed as error:
            yield from ((trial, None, str(error)) for trial in trials)
            continue
        for trial in trials:
            certificate = certificates.get(trial.trial_id)
            if certificate:
                yield trial, certificate, certificate.reason
            elif refusal := runner.refusal(trial):
                yield trial, None, refusal.error.message


def _name(trial: Trial) -> str:
    return f"{trial.means} on {trial.workload.model}"


def self_test(*, frameworks: list[str], wanted: Wanted, if_busy: IfBusy) -> None:
    """Plant the faults and print what came of each; ParityFailed where one is not caught, or
    where there is an alarm without one.
    """
    plan = plan_of("all", frameworks=frameworks, device="cpu")
    with (
        progress() as live,
        working(wanted, plan.frameworks, live, owner=owners.new_id(), if_busy=if_busy) as (
            engine,
            runner,
        ),
    ):
        prepared = runner.prepared(plan.frameworks)
        known = tuple(trial for trial in plan.trials if trial.framework in prepared)

        def files(workload: Workload, name: str) -> Inputs:
            return inputs.obtain(workload, seed=1, place=runner.work / name, say=live.say)

        test = selftest.SelfTest(
            engine=engine,
            prepared=prepared,
            make_engine=faulty_containers if engine.name == "docker" else VenvEngine,
            inputs=files(selftest.WORKLOAD, "inputs"),
            run_inputs=files(selftest.RUN_WORKLOAD, "run-inputs"),
            work=runner.work,
            say=live.say,
        )
        try:
            findings = [*test.run(replace(plan, trials=known))]
        except ProofFailed as error:
            raise ParityFailed(str(error), hint="dlsuite doctor") from None
    table.console().print(selftest_table.render(findings))
    bad = [each for each in findings if not each.good]
    if bad:
        names = ", ".join(f"{each.fault or 'a false alarm'} ({each.framework})" for each in bad)
        raise ParityFailed(f"the self-test failed: {names}", hint="report it, with this table")
