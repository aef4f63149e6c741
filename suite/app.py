"""What each command does: puts the parts together, prints the result, raises the failures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from suite import conformance as conformance_test
from suite import datasets, manifest, owners, planfile, records
from suite import doctor as diagnosis
from suite import parity as proof
from suite.engines import choice
from suite.engines.base import Engine
from suite.engines.choice import Wanted
from suite.errors import (
    ConformanceFailed,
    DlsuiteError,
    EngineError,
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
from suite.paths import home
from suite.plan import Plan, expand
from suite.report import as_json as json_report
from suite.report import parity_table, table
from suite.report.live import Live
from suite.report.summary import TrialSummary, summarise
from suite.runner import Runner


@dataclass
class Settings:
    """What holds for the whole process."""

    debug: bool = False


settings = Settings()


def known(error: Exception) -> DlsuiteError:
    """What to tell the user of any exception: its own words, the system's, or that it is a bug."""
    if isinstance(error, DlsuiteError):
        return error
    if isinstance(error, OSError) and error.filename:
        return EngineError(f"{error.filename}: {error.strerror}", hint="dlsuite doctor")
    return DlsuiteError(
        f"a bug in dlsuite: {type(error).__name__}: {error}",
        hint="run it again as dlsuite --debug ..., and report the traceback",
    )


@contextmanager
def _live() -> Iterator[Live]:
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
    used = dict.fromkeys((*frameworks, *(framework for framework, _ in proof.REFERENCES)))
    with (
        owners.turn(if_busy, live.say),
        owners.owning(owner, keep=wanted.keep) as work,
        choice.engine(wanted, used, owner, live.say) as engine,
    ):
        yield engine, Runner(engine, live, work)


def run(
    suite: str,
    *,
    frameworks: list[str],
    model: str | None,
    batch_size: int | None,
    repeats: int | None,
    results: Path,
    wanted: Wanted,
    if_busy: IfBusy,
) -> None:
    """Run a suite and print its table; RunsFailed where a run did not end well."""
    chosen = _chosen(manifest.suite(suite), model=model, batch_size=batch_size, repeats=repeats)
    plan = _plan(chosen, frameworks, device=wanted.device)
    owner = owners.new_id()
    with (
        records.run_folder(results, chosen.name) as folder,
        _live() as live,
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
    folder = records.RunFolder(_folder(run, results))
    planned = planfile.read(folder.path)
    done = records.so_far(folder.path)
    if len(done) == len(planned.plan.runs):
        _conclude(done, folder)
        return
    frameworks = planned.plan.frameworks
    with (
        _live() as live,
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
    _show(summarise(done))
    bad = [each for each in done if each.status not in ("ok", "skipped")]
    if bad or not any(each.status == "ok" for each in done):
        raise RunsFailed(
            f"{len(bad) or len(done)} of {len(done)} runs did not end well; "
            "each has its record and its reason",
            hint=f"dlsuite report {folder.path}",
        )
    unproven = sorted({f"{each.framework} {each.variant}" for each in done if _unproven(each)})
    if unproven:
        raise ParityFailed(
            f"timed, but not proven to be the same work: {', '.join(unproven)}",
            hint="dlsuite parity",
        )


def _folder(run: Path, results: Path) -> Path:
    """The run's folder, by its path or by its name in `results`; `latest` becomes the run."""
    return (run if run.is_dir() else results / run).resolve()


def _show(summaries: list[TrialSummary]) -> None:
    console = table.console()
    console.print(table.render(summaries, console.width))


def _unproven(record: records.Record) -> bool:
    return record.status == "ok" and not record.parity.proven


def parity(
    suite: str,
    *,
    frameworks: list[str],
    model: str | None,
    fresh: bool,
    wanted: Wanted,
    if_busy: IfBusy,
) -> None:
    """Prove and print; ParityFailed where a framework is not proven."""
    plan = _plan(_chosen(manifest.suite(suite), model=model), frameworks, device=wanted.device)
    rows: list[parity_table.Row] = []
    failed = []
    owner = owners.new_id()
    with (
        _live() as live,
        working(wanted, plan.frameworks, live, owner=owner, if_busy=if_busy) as (_, runner),
    ):
        runner.prepare(plan.frameworks)
        for workload, inputs in runner.inputs(plan).items():
            trials = [trial for trial in plan.trials if trial.workload == workload]
            try:
                certificates = runner.certify(trials, inputs, fresh=fresh)
            except proof.ProofFailed as error:
                raise ParityFailed(str(error), hint="dlsuite doctor") from None
            for trial in trials:
                certificate = certificates.get(trial.trial_id)
                refusal = runner.refusal(trial.framework)
                reason = certificate.reason if certificate else refusal and refusal.error.message
                if reason:
                    failed.append(f"{trial.framework} {trial.variant}: {reason}")
                rows.append((trial, certificate))
    table.console().print(parity_table.render(rows))
    if failed:
        raise ParityFailed("; ".join(failed), hint=f"see the workers' logs in {home() / 'logs'}")


def report(run: Path, *, results: Path, as_json: bool) -> None:
    """Print a run's summary; `run` is a folder, or a name in `results`."""
    folder = _folder(run, results)
    found = records.read(folder)
    summaries = summarise(found)
    missing = planfile.missing(folder, found)
    if as_json:
        print(json_report.render(found[0].run_id, summaries, missing))
        return
    _show(summaries)
    if missing:
        text = f"{len(missing)} planned runs have no record yet; dlsuite resume {run} does them"
        table.console().print(text, soft_wrap=True)


def prepare(name: str, source: Path | None) -> None:
    """Prepare a dataset and say where it lies."""
    with _live() as live:
        place = datasets.prepare(manifest.dataset(name), say=live.say, source=source)
    print(place)


def list_all() -> None:
    """Print all names that the other commands take."""
    shown = table.console()
    for name in manifest.names("framework"):
        framework = manifest.framework(name)
        shown.print(f"framework {name}: {framework.title}, Python {framework.python}")
        for variant, meaning in framework.variants.items():
            shown.print(f"  variant {name}:{variant}: {meaning}")
    for name, make in MODELS.items():
        architecture = make()
        shown.print(f"model {name}: {architecture.parameter_count:,} parameters")
    for name in manifest.names("dataset"):
        shown.print(f"dataset {name}: {manifest.dataset(name).title}")
    for name in manifest.names("suite"):
        shown.print(f"suite {name}: {manifest.suite(name).title}")


def doctor() -> None:
    """Print the diagnosis; EngineError where no framework can run here."""
    findings = diagnosis.examine()
    shown = table.console()
    for finding in findings:
        shown.print(f"{finding.mark} {finding.text}", markup=False, soft_wrap=True)
        if finding.next_step:
            shown.print(f"  next: {finding.next_step}", markup=False, soft_wrap=True)
    if not any(finding.good for finding in findings if finding.framework):
        raise EngineError("no framework can run here", hint="follow the steps above")


def conformance(command: list[str]) -> None:
    """Put a worker through the protocol's test; ConformanceFailed where it fails."""
    problems = conformance_test.check(command)
    if problems:
        print("\n".join(problems))
        count, first = len(problems), problems[0]
        raise ConformanceFailed(
            f"{count} breaches of the protocol, the first: {first}", hint="docs/protocol.md"
        )
    print("conforms to protocol version 1")


def _chosen(
    suite: SuiteManifest,
    *,
    model: str | None = None,
    batch_size: int | None = None,
    repeats: int | None = None,
) -> SuiteManifest:
    """The suite with the command line's changes, checked as its file was."""
    for option, value in (("--batch-size", batch_size), ("--repeats", repeats)):
        if value is not None and value < 1:
            raise UsageError(f"{option} is {value}; at least 1 makes sense", hint=f"{option} 1")
    workloads = [w for w in suite.workloads if model in (None, w.model)]
    if not workloads:
        known = {workload.model for workload in suite.workloads}
        raise UsageError(
            f"suite {suite.name!r} has no model {model!r}; {nearest(str(model), known)}",
            hint="dlsuite list",
        )
    if batch_size:
        workloads = [w.model_copy(update={"batch_size": batch_size}) for w in workloads]
    changes = {"workloads": tuple(workloads), "repeats": repeats or suite.repeats}
    return suite.model_copy(update=changes)


def _plan(suite: SuiteManifest, frameworks: list[str], *, device: str) -> Plan:
    for workload in suite.workloads:
        data, model = manifest.dataset(workload.dataset), MODELS[workload.model]()
        if (data.shape, data.classes) != (model.input_shape, model.classes):
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
    return expand(suite, manifest.frameworks(), only=frameworks, device=device)
