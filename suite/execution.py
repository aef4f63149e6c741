"""Runs of a plan, one by one or at once, each from its planned start to its written record."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from suite import environment, recording, trial_file
from suite.attempt import Attempt, attempt
from suite.engines.base import Engine, Prepared
from suite.inputs import Inputs
from suite.manifest import Workload
from suite.plan import Plan, Run, Trial
from suite.progress import Progress
from suite.records import Error, Parity, Record, RunFolder, Status
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
    work: Path
    plan: Plan
    given: dict[Workload, Inputs]
    marks: dict[str, Parity]  # by the trial's id
    folder: RunFolder

    def do(self, runs: Sequence[Run]) -> list[Record]:
        """Do the runs at once, with turns where there are several; write down what came of them."""
        turns = trial_file.make_turns(self.work / "turns", len(runs)) if len(runs) > 1 else None
        do = partial(self._record, turns=turns)
        records = self._at_once(do, runs) if turns else [do(run) for run in runs]
        for run, record in zip(runs, records, strict=True):
            self.folder.append(record)
            self.progress.done(run, record)
        return records

    def _at_once(self, do: Callable[[Run], Record], runs: Sequence[Run]) -> list[Record]:
        with ThreadPoolExecutor(max_workers=len(runs)) as pool:
            futures = [pool.submit(do, run) for run in runs]
            try:
                for future in as_completed(futures):
                    future.result()
            except BaseException:
                self.engine.stop()
                raise
        return [future.result() for future in futures]

    def _record(self, run: Run, *, turns: Turns | None) -> Record:
        ready = self.prepared(run.trial)
        if isinstance(ready, Refusal):
            done = Attempt(status=ready.status, error=ready.error, events=[])
        else:
            done = self._attempt(run, ready, turns)
        return recording.record(
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

    def _attempt(self, run: Run, ready: Prepared, turns: Turns | None) -> Attempt:
        trial_folder = self.work / run.name
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
        shutil.rmtree(trial_folder, ignore_errors=True)
        return done
