"""From a plan to records: prepare, prove, run each planned run, and write down what came of it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite import datasets, environment, events, inputs, manifest, parity
from suite.attempt import Attempt, attempt
from suite.engines.base import Engine, Event, FrameworkUnavailable, Prepared
from suite.errors import EngineError
from suite.inputs import Inputs
from suite.manifest import Workload
from suite.plan import Plan, Run, Trial
from suite.progress import Progress
from suite.records import (
    Block,
    Epoch,
    Error,
    Memory,
    Parity,
    Record,
    RunFolder,
    Status,
    Times,
)


@dataclass(frozen=True)
class Refusal:
    """Why a framework cannot be run here."""

    status: Status
    error: Error


class Runner:
    """Runs plans on one engine; `prepared` is filled as frameworks are asked for."""

    def __init__(self, engine: Engine, progress: Progress) -> None:
        self._engine = engine
        self._progress = progress
        self._ready: dict[str, Prepared | Refusal] = {}
        self._host = environment.describe()

    def run(self, plan: Plan, folder: RunFolder) -> list[Record]:
        """Do all runs of the plan; each ends as a record, appended at once, and is returned."""
        with tempfile.TemporaryDirectory(prefix="dlsuite-") as work:
            prepared_inputs = self.inputs(plan, Path(work))
            self.prepare({trial.framework: None for trial in plan.trials})
            marks = self._marks(plan, prepared_inputs)
            self._progress.planned(plan)
            records = []
            for run in plan.runs:
                given = prepared_inputs[run.trial.workload]
                record = self._run(plan, run, given, marks[run.trial.trial_id], folder, Path(work))
                folder.append(record)
                self._progress.done(run, record)
                records.append(record)
        return records

    def prepare(self, frameworks: Iterable[str]) -> None:
        """Make the frameworks ready, two at a time: downloading and unpacking go together."""
        with ThreadPoolExecutor(max_workers=2) as pool:
            list(pool.map(self._prepare, frameworks))

    def inputs(self, plan: Plan, work: Path) -> dict[Workload, Inputs]:
        """The neutral files of each workload; DataError where a dataset cannot be had."""
        made: dict[Workload, Inputs] = {}
        for trial in plan.trials:
            workload = trial.workload
            if workload not in made:
                dataset = manifest.dataset(workload.dataset)
                data = datasets.ready(dataset, self._progress.say)
                place = work / f"inputs-{len(made)}"
                made[workload] = inputs.make(
                    workload, dataset, data=data, seed=trial.seed, place=place
                )
        return made

    def certify(
        self, trials: list[Trial], given: Inputs, *, fresh: bool = False
    ) -> dict[str, parity.Certificate]:
        """Certificates of the trials (of one workload) whose framework can be had here.

        Raise ProofFailed where there is no trusted reference.
        """
        self.prepare(framework for framework, _ in parity.REFERENCES)
        for framework, _ in parity.REFERENCES:
            ready = self._prepare(framework)
            if isinstance(ready, Refusal):
                raise parity.ProofFailed(f"no reference: {ready.error.message}")
        prepared = {
            name: ready for name, ready in self._ready.items() if isinstance(ready, Prepared)
        }
        open_trials = [trial for trial in trials if trial.framework in prepared]
        say = self._progress.say
        return parity.certify(self._engine, open_trials, prepared, given, say=say, fresh=fresh)

    def refusal(self, framework: str) -> Refusal | None:
        """Why the framework cannot be run here, None where it can."""
        ready = self._prepare(framework)
        return ready if isinstance(ready, Refusal) else None

    def _marks(self, plan: Plan, given: dict[Workload, Inputs]) -> dict[str, Parity]:
        """Each trial's parity mark by its id."""
        marks = {
            trial.trial_id: Parity(proven=False, reason="not compared") for trial in plan.trials
        }
        for workload, files in given.items():
            trials = [trial for trial in plan.trials if trial.workload == workload]
            try:
                proofs = self.certify(trials, files)
            except parity.ProofFailed as error:
                mark = Parity(proven=False, reason=str(error))
                marks.update({trial.trial_id: mark for trial in trials})
                continue
            marks.update({trial_id: proof.mark() for trial_id, proof in proofs.items()})
        return marks

    def _prepare(self, framework: str) -> Prepared | Refusal:
        if framework not in self._ready:
            self._ready[framework] = self._try_prepare(framework)
        return self._ready[framework]

    def _try_prepare(self, framework: str) -> Prepared | Refusal:
        try:
            return self._engine.prepare(manifest.framework(framework), self._progress.say)
        except (FrameworkUnavailable, EngineError) as error:
            status: Status = "skipped" if isinstance(error, FrameworkUnavailable) else "failed"
            name = type(error).__name__
            reason = Error(error_class=name, message=str(error), hint=error.hint)
            return Refusal(status, reason)

    def _run(
        self, plan: Plan, run: Run, given: Inputs, mark: Parity, folder: RunFolder, work: Path
    ) -> Record:
        ready = self._prepare(run.trial.framework)
        if isinstance(ready, Refusal):
            done = Attempt(status=ready.status, error=ready.error, events=[])
            return self._record(plan, run, given, mark, folder, done, None)
        name = f"{run.trial.trial_id}-r{run.repeat}"
        trial_folder = work / name
        inputs.write_trial(
            trial_folder,
            run.trial,
            given,
            mode="train",
            measure=plan.measure,
            repeat=run.repeat,
            epochs=run.epochs,
        )

        def on_event(event: Event) -> None:
            self._progress.event(run, event)

        log = folder.logs / f"{name}.log"
        done = attempt(
            self._engine,
            ready,
            trial_folder,
            log=log,
            deadline_s=plan.deadline_s,
            on_event=on_event,
        )
        _keep(trial_folder / "results" / "events.jsonl", folder.logs / f"{name}.events.jsonl")
        shutil.rmtree(trial_folder, ignore_errors=True)
        return self._record(plan, run, given, mark, folder, done, ready)

    def _record(
        self,
        plan: Plan,
        run: Run,
        given: Inputs,
        mark: Parity,
        folder: RunFolder,
        done: Attempt,
        ready: Prepared | None,
    ) -> Record:
        trial, work = run.trial, run.trial.workload
        started = events.one(done.events, "started")
        log = f"logs/{trial.trial_id}-r{run.repeat}.log" if ready else None
        return Record(
            run_id=folder.run_id,
            suite=plan.suite,
            trial_id=trial.trial_id,
            framework=trial.framework,
            framework_version=started.get("framework_version"),
            variant=trial.variant,
            track=trial.track,
            model=work.model,
            parameters=events.one(done.events, "built").get("parameters"),
            flops_per_sample=given.architecture.flops_per_sample(work.mode),
            dataset=work.dataset,
            mode=work.mode,
            batch_size=work.batch_size,
            precision=work.precision,
            optimizer=work.optimizer.model_dump(),
            device=trial.device,
            repeat=run.repeat,
            seed=trial.seed,
            status=done.status,
            error=done.error,
            engine=self._engine.name,
            image_id=ready.image_id if ready else None,
            environment=self._environment(started, ready),
            parity=mark,
            log=log,
            **_measured(done.events),
        )

    def _environment(self, started: Event, ready: Prepared | None) -> dict[str, Any]:
        """The host, and what the worker said of its own versions and device."""
        worker = {"versions": started.get("versions"), "device": started.get("device")}
        lock = ready.lock_sha256 if ready else None
        return {**self._host, "worker": worker, "lock_sha256": lock}


def _keep(source: Path, target: Path) -> None:
    if source.exists():
        shutil.copyfile(source, target)


def _measured(said: list[Event]) -> dict[str, Any]:
    """The figures in a worker's events, as the record's fields."""
    blocks = tuple(
        Block(warmup=event["event"] == "warmup", **_fields(event, Block, "warmup"))
        for event in said
        if event["event"] in ("warmup", "block")
    )
    warmup_s = sum(block.duration_s for block in blocks if block.warmup)
    steady = [block for block in blocks if not block.warmup]
    measured_s = sum(block.duration_s for block in steady)
    samples = sum(block.samples_per_s * block.duration_s for block in steady)
    times = Times(
        import_s=events.one(said, "started").get("import_s"),
        build_s=events.one(said, "built").get("build_s"),
        first_step_s=events.one(said, "compiled").get("first_step_s"),
        warmup_s=warmup_s if blocks else None,
        measured_s=measured_s if steady else None,
    )
    return {
        "times": times,
        "blocks": blocks,
        "samples_per_s": samples / measured_s if steady else None,
        "epochs": tuple(Epoch(**_fields(each, Epoch)) for each in events.of(said, "epoch")),
        "memory": Memory(**_fields(events.one(said, "memory"), Memory)),
    }


def _fields(event: Event, schema: type[Block | Epoch | Memory], *left_out: str) -> dict[str, Any]:
    return {k: event[k] for k in schema.model_fields if k in event and k not in left_out}
