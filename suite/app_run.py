"""`run` and `resume`: a plan, an engine, the table; and what other commands share with them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from suite import datasets, limit, manifest, owners, planfile, records, reference
from suite.engines import choice
from suite.engines.base import Engine
from suite.engines.choice import Wanted
from suite.errors import (
    Interrupted,
    ManifestError,
    ParityFailed,
    ResultsError,
    RunsFailed,
    UsageError,
    nearest,
)
from suite.manifest import SuiteManifest
from suite.models import MODELS
from suite.owners import IfBusy
from suite.plan import Plan, expand
from suite.report import table
from suite.report.live import Live
from suite.report.summary import TrialSummary, summarise
from suite.runner import Runner


@contextmanager
def progress() -> Iterator[Live]:
    try:
        with Live() as live:
            yield live
    except KeyboardInterrupt:
        raise Interrupted(
            "interrupted; the worker was stopped, finished records are kept",
            hint="dlsuite report shows what there is, dlsuite resume finishes it",
        ) from None


@contextmanager
def working(
    wanted: Wanted, frameworks: Iterable[str], live: Live, *, owner: str, if_busy: IfBusy
) -> Iterator[tuple[Engine, Runner]]:
    """The machine to oneself, an engine, and a runner on it."""
    used = dict.fromkeys((*frameworks, *(framework for framework, _ in reference.LOWERINGS)))
    with (
        owners.turn(if_busy, live.say),
        owners.owning(owner, keep=wanted.keep) as work,
        choice.engine(wanted, used, owner, live.say, if_busy=if_busy) as engine,
    ):
        yield engine, Runner(engine, live, work)


def run(
    suite: str,
    *,
    frameworks: list[str],
    models: list[str],
    tracks: list[str],
    batch_size: int | None,
    epochs: int | None,
    repeats: int | None,
    turns: bool,
    proof_steps: int | None,
    verify_runs: bool,
    results: Path,
    wanted: Wanted,
    if_busy: IfBusy,
) -> None:
    """Run a suite and print its table; RunsFailed where a run did not end well."""
    plan = plan_of(
        suite,
        frameworks=frameworks,
        models=models,
        tracks=tracks,
        batch_size=batch_size,
        epochs=epochs,
        repeats=repeats,
        turns=turns,
        proof_steps=proof_steps,
        verify_runs=verify_runs,
        device=wanted.device,
    )
    owner = owners.new_id()
    with (
        records.run_folder(results, plan.suite) as folder,
        progress() as live,
        working(wanted, plan.frameworks, live, owner=owner, if_busy=if_busy) as (engine, runner),
    ):

        def begin(locks: dict[str, str]) -> None:
            planned = planfile.Planned(
                owner=owner,
                wanted=replace(wanted, engine=engine.name),
                worker_sha256=engine.worker_sha256,
                locks=locks,
                plan=plan,
            )
            with folder.writing(planfile.NAME):
                planfile.write(folder.path, planned)

        done = runner.run(plan, folder, begin=begin)
    _conclude(done, folder)


def resume(run: Path, *, results: Path, if_busy: IfBusy) -> None:
    """Finish a run whose orchestrator ended before its plan did; then as `run`."""
    folder = records.RunFolder(folder_of(run, results))
    planned = planfile.read(folder.path)
    done = records.so_far(folder.path)
    if not planfile.missing(folder.path, done):
        _conclude(done, folder)
        return
    frameworks = planned.plan.frameworks
    with (
        progress() as live,
        working(planned.wanted, frameworks, live, owner=planned.owner, if_busy=if_busy) as (
            engine,
            runner,
        ),
    ):

        def begin(locks: dict[str, str]) -> None:
            changed = [
                name for name in locks if planned.locks.get(name, locks[name]) != locks[name]
            ]
            if engine.worker_sha256 != planned.worker_sha256:
                changed.append("the worker")
            if changed:
                raise ResultsError(
                    f"{folder.path} cannot be resumed: {', '.join(changed)} changed since it began",
                    hint="dlsuite run begins anew; the finished records are kept",
                )

        done = runner.run(planned.plan, folder, done=done, begin=begin)
    _conclude(done, folder)


def _conclude(done: list[records.Record], folder: records.RunFolder) -> None:
    """Print the table of a finished plan; raise what its records have to complain of."""
    show(summarise(done), limit.read(folder.path))
    bad = [each for each in done if each.status not in ("ok", "skipped")]
    if bad or not any(each.status == "ok" for each in done):
        raise RunsFailed(
            f"{len(bad) or len(done)} of {len(done)} runs did not end well; "
            "each has its record and its reason",
            hint=f"dlsuite report {folder.path}",
        )
    unproven = sorted({each.means for each in done if _unproven(each)})
    if unproven:
        raise ParityFailed(
            f"timed, but not proven to be the same work: {', '.join(unproven)}",
            hint="dlsuite parity",
        )


def folder_of(run: Path, results: Path) -> Path:
    """The run's folder, by its path or by its name in `results`; `latest` becomes the run."""
    return (run if run.is_dir() else results / run).resolve()


def show(summaries: list[TrialSummary], reached: limit.Limit | None) -> None:
    console = table.console()
    console.print(table.render(summaries, console.width, reached))


def _unproven(record: records.Record) -> bool:
    return record.status == "ok" and not record.parity.proven


def plan_of(
    suite: str,
    *,
    frameworks: list[str],
    device: str,
    models: Collection[str] = (),
    tracks: Collection[str] = (),
    batch_size: int | None = None,
    epochs: int | None = None,
    repeats: int | None = None,
    turns: bool = False,
    proof_steps: int | None = None,
    verify_runs: bool = False,
) -> Plan:
    """The plan of a suite with the command line's changes; UsageError where they make no sense."""
    chosen = _chosen(
        manifest.suite(suite),
        models=models,
        tracks=tracks,
        batch_size=batch_size,
        epochs=epochs,
        repeats=repeats,
        turns=turns,
        proof_steps=proof_steps,
        verify_runs=verify_runs,
    )
    _check_data(chosen)
    return expand(chosen, manifest.frameworks(), manifest.tracks(), only=frameworks, device=device)


def _chosen(
    suite: SuiteManifest,
    *,
    models: Collection[str] = (),
    tracks: Collection[str] = (),
    batch_size: int | None = None,
    epochs: int | None = None,
    repeats: int | None = None,
    turns: bool = False,
    proof_steps: int | None = None,
    verify_runs: bool = False,
) -> SuiteManifest:
    """The suite with the command line's changes, checked as its file was."""
    counts = (
        ("--batch-size", batch_size),
        ("--repeats", repeats),
        ("--proof-steps", proof_steps),
    )
    for option, value in counts:
        if value is not None and value < 1:
            raise UsageError(f"{option} is {value}; at least 1 makes sense", hint=f"{option} 1")
    if epochs is not None and epochs < 0:
        raise UsageError(f"--epochs is {epochs}; at least 0 makes sense", hint="--epochs 0")
    known = {workload.model for workload in suite.workloads}
    for model in models:
        if model not in known:
            raise UsageError(
                f"suite {suite.name!r} has no model {model!r}; {nearest(model, known)}",
                hint="dlsuite list",
            )
    workloads = [w for w in suite.workloads if not models or w.model in models]
    if batch_size:
        workloads = [w.model_copy(update={"batch_size": batch_size}) for w in workloads]
    if epochs is not None:
        workloads = [w.model_copy(update={"epochs": epochs}) for w in workloads]
    changes: dict[str, Any] = {
        "workloads": tuple(workloads),
        "turns": turns or suite.turns,
        "verify_runs": verify_runs or suite.verify_runs,
    }
    if tracks:
        changes["tracks"] = tuple(dict.fromkeys(tracks))
    if proof_steps:
        changes["proof_steps"] = proof_steps
    if repeats:
        exactly = {"at_least": repeats, "at_most": repeats}
        changes["repeats"] = suite.repeats.model_copy(update=exactly)
    return suite.model_copy(update=changes)


def _check_data(suite: SuiteManifest) -> None:
    """See that each workload's model takes its dataset and its batch is no larger than that.

    A model may tell more classes than there are, as of a part of ImageNet.
    """
    for workload in suite.workloads:
        data = datasets.describe(datasets.of(workload))
        model = MODELS[workload.model]()
        if data.shape != model.input_shape or data.classes > model.classes:
            raise ManifestError(
                f"suite {suite.name!r}: {workload.model} takes {model.input_shape} and tells "
                f"{model.classes} classes, {workload.dataset} has {data.shape} and {data.classes}",
                hint="dlsuite list",
            )
        if workload.batch_size > data.samples["train"]:
            raise UsageError(
                f"batch size {workload.batch_size} is more than the {data.samples['train']} "
                f"training samples of {workload.dataset}",
                hint=f"--batch-size {data.samples['train']} or less",
            )
