"""From a plan to records: prepare, prove, run each planned run, and write down what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from suite import inputs, limit, manifest, parity, reference, repeats, tensors
from suite.engines.base import Engine, EngineLost, FrameworkUnavailable, Prepared
from suite.errors import EngineError
from suite.execution import Execution, Refusal
from suite.inputs import Inputs
from suite.manifest import PROOF_STEPS, Workload
from suite.models import MODELS
from suite.plan import Plan, Trial
from suite.progress import Progress
from suite.records import Error, Parity, Record, RunFolder, Status


class Runner:
    """Runs plans on one engine; `work` is a folder for what only the runs need."""

    def __init__(self, engine: Engine, progress: Progress, work: Path) -> None:
        self._engine = engine
        self._progress = progress
        self.work = work
        self._ready: dict[str, Prepared | Refusal] = {}

    def run(
        self,
        plan: Plan,
        folder: RunFolder,
        *,
        done: Iterable[Record] = (),
        begin: Callable[[dict[str, str]], None] = lambda locks: None,
    ) -> list[Record]:
        """Do the runs of the plan that are not `done`; return the records of all.

        Each ends as a record, appended at once. `begin` is told the lock of each framework before
        the first run. Raise EngineLost where the engine went away: what is left can be resumed.
        """
        records = list(done)
        prepared_inputs = self.inputs(plan)
        self.prepare(plan.frameworks)
        begin(self._locks())
        for workload, given in prepared_inputs.items():
            workers = max(
                len(group) for group in plan.groups if group[0].trial.workload == workload
            )
            given.must_fit(workload, self._engine.host["memory_bytes"], workers)
        marks = self._marks(plan, prepared_inputs)
        self._limit(plan, prepared_inputs, folder)
        self._progress.planned(plan)
        execution = Execution(
            engine=self._engine,
            progress=self._progress,
            prepared=self._prepare_for,
            reference=lambda: (self._engine, self.prepared(())),
            measure_limit=lambda: self.measure_limit(plan, prepared_inputs),
            work=self.work,
            plan=plan,
            given=prepared_inputs,
            marks=marks,
            folder=folder,
        )
        for group in plan.groups:
            records += execution.do(repeats.wanted(plan, group, records))
        return records

    def _limit(self, plan: Plan, given: dict[Workload, Inputs], folder: RunFolder) -> None:
        """Measure the device's limit, once for the run."""
        if plan.limit and limit.read(folder.path) is None:
            found = self.measure_limit(plan, given)
            if found.best:
                with folder.writing(limit.NAME):
                    limit.write(folder.path, found)

    def measure_limit(self, plan: Plan, given: dict[Workload, Inputs]) -> limit.Limit:
        """What the plan's device can do at most, by the frameworks that were prepared."""
        trial = plan.trials[0]
        return limit.measure(
            self._engine,
            trial,
            self._at_hand(),
            given[trial.workload],
            work=self.work,
            say=self._progress.say,
        )

    def _locks(self) -> dict[str, str]:
        return {name: ready.lock_sha256 for name, ready in self._at_hand().items()}

    def _at_hand(self) -> dict[str, Prepared]:
        """The frameworks that were prepared and can be had."""
        return {name: ready for name, ready in self._ready.items() if isinstance(ready, Prepared)}

    def prepare(self, frameworks: Iterable[str]) -> None:
        """Make the frameworks ready, two at a time: downloading and unpacking go together."""
        with ThreadPoolExecutor(max_workers=2) as pool:
            try:
                list(pool.map(self._prepare, frameworks))
            except KeyboardInterrupt:
                self._engine.stop()
                raise

    def inputs(self, plan: Plan) -> dict[Workload, Inputs]:
        """The neutral files of each workload; DataError where a dataset cannot be had."""
        made: dict[Workload, Inputs] = {}
        for trial in plan.trials:
            workload = trial.workload
            if workload not in made:
                place = self.work / f"inputs-{len(made)}"
                made[workload] = inputs.obtain(
                    workload, seed=trial.seed, place=place, say=self._progress.say
                )
        return made

    def certify(
        self, trials: list[Trial], given: Inputs, *, steps: int = PROOF_STEPS, fresh: bool = False
    ) -> dict[str, parity.Certificate]:
        """Certificates of the trials (of one workload) whose framework can be had here.

        Raise ProofFailed where there is no trusted reference.
        """
        prepared = self.prepared(trial.framework for trial in trials)
        open_trials = [trial for trial in trials if self.refusal(trial) is None]
        return parity.certify(
            self._engine,
            open_trials,
            prepared,
            given,
            work=self.work,
            say=self._progress.say,
            steps=steps,
            fresh=fresh,
        )

    def prepared(self, frameworks: Iterable[str]) -> dict[str, Prepared]:
        """Those of the frameworks that can be had here, and the reference's.

        Raise ProofFailed where the reference's cannot.
        """
        needed = [framework for framework, _ in reference.LOWERINGS]
        self.prepare(dict.fromkeys((*needed, *frameworks)))
        for framework in needed:
            ready = self._prepare(framework)
            if isinstance(ready, Refusal):
                raise tensors.ProofFailed(f"no reference: {ready.error.message}")
        return self._at_hand()

    def refusal(self, trial: Trial) -> Refusal | None:
        """Why the trial cannot be run here, None where it can."""
        ready = self._prepare_for(trial)
        return ready if isinstance(ready, Refusal) else None

    def _prepare_for(self, trial: Trial) -> Prepared | Refusal:
        framework = manifest.framework(trial.framework)
        layers = {layer.kind for layer in MODELS[trial.workload.model]().leaves()}
        lack = framework.lacking(
            variant=trial.variant,
            device=trial.device,
            layers=layers,
            input=trial.workload.input,
        )
        if lack:
            return Refusal("skipped", Error(error_class="Lacking", message=lack))
        return self._prepare(trial.framework)

    def _marks(self, plan: Plan, given: dict[Workload, Inputs]) -> dict[str, Parity]:
        """Each trial's parity mark by its id."""
        marks = {
            trial.trial_id: Parity(proven=False, reason="not compared") for trial in plan.trials
        }
        for workload, files in given.items():
            trials = [trial for trial in plan.trials if trial.workload == workload]
            try:
                proofs = self.certify(trials, files, steps=plan.proof_steps)
            except tensors.ProofFailed as error:
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
        except EngineLost:
            raise
        except (FrameworkUnavailable, EngineError) as error:
            status: Status = "skipped" if isinstance(error, FrameworkUnavailable) else "failed"
            name = type(error).__name__
            reason = Error(error_class=name, message=str(error), hint=error.hint)
            return Refusal(status, reason)
