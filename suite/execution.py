"""Runs of a plan, one by one or at once, each from its planned start to its written record."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from suite import closing, environment, events, limit, plausible, recording, trial_file
from suite.attempt import Attempt, attempt
from suite.engines.base import Engine, Prepared
from suite.inputs import Inputs
from suite.manifest import Workload
from suite.plan import Plan, Run, Trial
from suite.progress import Progress
from suite.records import Closing, Error, Parity, Record, RunFolder, Status
from suite.tensors import ProofFailed
from suite.trial_file import Turns
from suite.worker.telemetry import FILE


@dataclass(frozen=True)
class Refusal:
    """Why a framework cannot be run here."""

    status: Status
    error: Error


@dataclass(frozen=True, kw_only=True)
class Execution:
    """Does runs of `plan`; `prepared` finds a trial's framework, or why it cannot be had."""

    engine: Engine
    progress: Progress
    prepared: Callable[[Trial], Prepared | Refusal]
    # The engine of the reference and its frameworks; ProofFailed where they cannot be had.
    reference: Callable[[], tuple[Engine, dict[str, Prepared]]]
    measure_limit: Callable[[], limit.Limit] | None  # once more; None: there is no limit to keep
    work: Path
    plan: Plan
    given: dict[Workload, Inputs]
    marks: dict[str, Parity]  # by the trial's id
    folder: RunFolder

    def do(self, runs: Sequence[Run]) -> list[Record]:
        """Do the runs at once, with turns where there are several; write down what came of them."""
        turns = trial_file.make_turns(self.work / "turns", len(runs)) if len(runs) > 1 else None
        do = partial(self._attempt, turns=turns)
        attempts = self._at_once(do, runs) if turns else [do(run) for run in runs]
        records = []
        for run, done in zip(runs, attempts, strict=True):
            record = self._record(run, done, turns)
            shutil.rmtree(self._folder(run), ignore_errors=True)
            self.folder.append(record)
            self.progress.done(run, record)
            records.append(record)
        return records

    def _at_once(self, do: Callable[[Run], Attempt], runs: Sequence[Run]) -> list[Attempt]:
        with ThreadPoolExecutor(max_workers=len(runs)) as pool:
            futures = [pool.submit(do, run) for run in runs]
            try:
                for future in as_completed(futures):
                    future.result()
            except BaseException:
                self.engine.stop()
                raise
        return [future.result() for future in futures]

    def _record(self, run: Run, done: Attempt, turns: Turns | None) -> Record:
        ready = self.prepared(run.trial)
        record = recording.record(
            self.plan,
            run,
            done,
            run_id=self.folder.run_id,
            engine=self.engine.name,
            prepared=ready if isinstance(ready, Prepared) else None,
            given=self.given[run.trial.workload],
            mark=self.marks[run.trial.trial_id],
            host=environment.describe(self.engine.host),
            turns=turns.workers if turns else 1,
        )
        if record.status == "ok" and (problem := self._problem(run, record)):
            return record.model_copy(update={"status": "failed", "error": problem})
        if record.status == "ok" and self._closes(run):
            proof = self._prove(run, done)
            return record.model_copy(update={"parity": record.parity.closed(proof)})
        return record

    def _problem(self, run: Run, record: Record) -> Error | None:
        """Why the run's figures cannot be true. A rate beyond the limit is given a second chance:
        the limit may have been measured in a slow moment, so it is measured once more.
        """
        reached = limit.read(self.folder.path)
        if reached and self.measure_limit and plausible.beyond(record, reached):
            reached = limit.larger(reached, self.measure_limit())
            with self.folder.writing(limit.NAME):
                limit.write(self.folder.path, reached)
        return plausible.problem(record, run.epochs, reached)

    def _closes(self, run: Run) -> bool:
        """Whether the run ends with the closing proof."""
        return run.repeat == 0 or self.plan.verify_runs

    def _prove(self, run: Run, done: Attempt) -> Closing:
        event = events.one(done.events, "closing")
        if not event:
            return Closing(proven=False, step=0, reason="the worker made no closing proof")
        try:
            engine, prepared = self.reference()
        except ProofFailed as error:
            return Closing(proven=False, step=event["step"], reason=f"closing proof: {error}")
        return closing.prove(
            engine,
            prepared,
            run.trial,
            self.given[run.trial.workload],
            self._folder(run) / "results",
            event,
            work=self.work,
            say=self.progress.say,
        )

    def _folder(self, run: Run) -> Path:
        return self.work / run.name

    def _attempt(self, run: Run, *, turns: Turns | None) -> Attempt:
        ready = self.prepared(run.trial)
        if isinstance(ready, Refusal):
            return Attempt(status=ready.status, error=ready.error, events=[])
        trial_folder = self._folder(run)
        trial_file.write(
            trial_folder,
            run.trial,
            self.given[run.trial.workload],
            mode="train",
            measure=self.plan.measure,
            cpus=self.engine.host["cpus"],
            turns=turns,
            repeat=run.repeat,
            epochs=run.epochs,
            closing=self._closes(run),
        )
        done = attempt(
            self.engine,
            ready,
            trial_folder,
            name=f"{self.folder.run_id}-{run.name}",
            log=self.folder.logs / f"{run.name}.log",
            deadline_s=self.plan.deadline_s * (turns.workers if turns else 1),
            on_event=partial(self.progress.event, run),
        )
        for name in ("events.jsonl", FILE):
            said = trial_folder / "results" / name
            if said.exists():
                shutil.copyfile(said, self.folder.logs / f"{run.name}.{name}")
        return done
