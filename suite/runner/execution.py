"""Executes runs, one at a time or interleaved, and writes a record of each."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from suite.datasets.inputs import Inputs
from suite.engines.attempt import Attempt, run_task
from suite.engines.base import Engine, Prepared
from suite.engines.parallel import in_parallel
from suite.parity import answers, closing
from suite.parity.tensors import ProofFailed
from suite.protocol import events, trial_file
from suite.protocol.plan import Plan, Run, Trial
from suite.protocol.trial_file import Interleaving, Task
from suite.results import roofline
from suite.results.record import Closing, Error, Parity, Record
from suite.results.roofline import HardwarePeak
from suite.results.store import RunFolder
from suite.runner import plausibility, recording, series
from suite.runner.frameworks import Unavailable
from suite.runner.load import Load
from suite.runner.progress import Progress
from suite.runner.series import Outcomes
from suite.worker import ranks
from suite.worker.launch import LOG
from suite.worker.loop import PREDICTIONS
from suite.worker.telemetry import FILE

# The files of a rank that are kept, and the ends of their names.
KEPT = {
    "events.jsonl": "events.jsonl",
    FILE: FILE,
    LOG: "log",
    PREDICTIONS: PREDICTIONS,
    "loadgen/mlperf_log_summary.txt": "loadgen.txt",
}


@dataclass(frozen=True, kw_only=True)
class ReadyTrial:
    """A trial with everything that its runs need."""

    trial: Trial
    framework: Prepared | Unavailable
    inputs: Inputs
    parity: Parity  # by its certificate


@dataclass(frozen=True, kw_only=True)
class Execution:
    """Executes runs of `plan`."""

    engine: Engine
    progress: Progress
    # Returns the reference's engine and frameworks; raises ProofFailed where there are none.
    reference: Callable[[], tuple[Engine, dict[str, Prepared]]]
    measure_peak: Callable[[], HardwarePeak] | None  # measures again; None: rates are not checked
    work_dir: Path
    plan: Plan
    ready: Mapping[str, ReadyTrial]  # by trial id
    folder: RunFolder
    load: Load | None = None  # of this machine; None where the workers are on another one
    outcomes: Outcomes = field(default_factory=Outcomes)  # of the runs so far, by series

    def do(self, runs: Sequence[Run]) -> list[Record]:
        """Execute the runs, interleaved where several can run, and write their records."""
        attempts = {run: attempt for run in runs if (attempt := self._not_executed(run))}
        executed = [run for run in runs if run not in attempts]
        interleaving = (
            trial_file.make_interleaving(self.work_dir / "interleaving", len(executed))
            if len(executed) > 1
            else None
        )
        run_one = partial(self._attempt, interleaving=interleaving)
        at_once = max(1, len(executed))
        if self.load:
            self.load.look()  # what was before the runs does not count
        done = in_parallel(self.engine, run_one, executed, at_once=at_once)
        neighbours = self.load.look() if self.load and executed else ()
        attempts |= zip(executed, done, strict=True)
        # Interleaved runs are recorded together: a resume repeats all of them or none.
        records = [
            self._record(run, attempts[run], interleaving).model_copy(
                update={"neighbours": neighbours if run in executed else ()}
            )
            for run in runs
        ]
        for run, record in zip(runs, records, strict=True):
            shutil.rmtree(self._folder(run), ignore_errors=True)
            self.folder.append(record)
            self.progress.done(run, record)
        self.outcomes.add(records)
        return records

    def _record(self, run: Run, attempt: Attempt, interleaving: Interleaving | None) -> Record:
        """The record of a run, after the check of its figures and the closing proof."""
        ready = self._ready(run)
        record = recording.record(
            self.plan,
            run,
            attempt,
            run_id=self.folder.run_id,
            engine=self.engine,
            prepared=ready.framework if isinstance(ready.framework, Prepared) else None,
            inputs=ready.inputs,
            parity=ready.parity,
            interleaved=interleaving.workers if interleaving else 1,
        )
        if record.status == "ok" and (problem := self._problem(run, record)):
            return record.model_copy(update={"status": "failed", "error": problem})
        if record.status == "ok" and (proof := self._closing(run, attempt)):
            return record.model_copy(update={"parity": record.parity.closed(proof)})
        return record

    def _closing(self, run: Run, attempt: Attempt) -> Closing | None:
        """The run's closing proof; of a first run without one, that of a smaller batch size."""
        if self._closes(run):
            return self._prove(run, attempt)
        return self.outcomes.closing(run.trial) if run.repeat == 0 else None

    def _problem(self, run: Run, record: Record) -> Error | None:
        """Why the run's figures are impossible; None where they are plausible.

        Where a rate exceeds the peak, the peak is measured again first: it may have been measured
        in a slow phase of the machine.
        """
        peak = roofline.read(self.folder.path)
        if peak and self.measure_peak and plausibility.beyond(record, peak):
            peak = roofline.larger(peak, self.measure_peak())
            with self.folder.writing(roofline.NAME):
                roofline.write(self.folder.path, peak)
        return plausibility.problem(record, run.epochs, peak)

    def _closes(self, run: Run) -> bool:
        """Whether the run ends with a closing proof; in inference, every run does."""
        if run.trial.workload.scenario:
            return True
        return (run.repeat == 0 or self.plan.verify_runs) and series.closes(run.trial)

    def _prove(self, run: Run, attempt: Attempt) -> Closing:
        """The result of the closing proof; not proven where there is nothing to compare."""
        if run.trial.workload.scenario:
            return answers.prove(
                self.reference,
                run.trial,
                self._ready(run).inputs,
                self._folder(run) / "results",
                work_dir=self.work_dir,
                notify=self.progress.notify,
            )
        event = events.one(attempt.events, "closing")
        if not event:
            return Closing(proven=False, step=0, reason="the worker wrote no closing proof")
        try:
            engine, prepared = self.reference()
        except ProofFailed as error:
            return Closing(proven=False, step=event["step"], reason=f"closing proof: {error}")
        return closing.prove(
            engine,
            prepared,
            run.trial,
            self._ready(run).inputs,
            self._folder(run) / "results",
            event,
            work_dir=self.work_dir,
            notify=self.progress.notify,
        )

    def _ready(self, run: Run) -> ReadyTrial:
        return self.ready[run.trial.trial_id]

    def _folder(self, run: Run) -> Path:
        return self.work_dir / run.name

    def _not_executed(self, run: Run) -> Attempt | None:
        """The result of a run that needs no worker; None where its worker is to run."""
        framework = self._ready(run).framework
        if isinstance(framework, Unavailable):
            return Attempt(status=framework.status, error=framework.error, events=[])
        if reason := self.outcomes.why_untried(run.trial):
            return Attempt(status="skipped", error=reason, events=[])
        return None

    def _attempt(self, run: Run, *, interleaving: Interleaving | None) -> Attempt:
        """Run the worker; keep its events and samples."""
        ready = self._ready(run)
        assert isinstance(ready.framework, Prepared)
        task = Task(
            trial=run.trial,
            inputs=ready.inputs,
            mode=run.trial.workload.mode,
            measure=self.plan.measure,
            interleaving=interleaving,
            repeat=run.repeat,
            epochs=run.epochs,
            closing=self._closes(run) and run.trial.workload.scenario is None,
        )
        attempt = run_task(
            self.engine,
            ready.framework,
            task,
            self._folder(run),
            name=f"{self.folder.run_id}-{run.name}",
            log=self.folder.logs / f"{run.name}.log",
            deadline_s=self.plan.deadline_s * (interleaving.workers if interleaving else 1),
            on_event=partial(self.progress.event, run),
        )
        for rank in range(run.trial.devices.ranks):
            results = ranks.folder(self._folder(run) / "results", rank)
            stem = f"{run.name}{recording.rank_suffix(rank)}"
            for name, kept in KEPT.items():
                if (results / name).exists():
                    with self.folder.writing(f"logs/{stem}.{kept}"):
                        shutil.copyfile(results / name, self.folder.logs / f"{stem}.{kept}")
        return attempt
