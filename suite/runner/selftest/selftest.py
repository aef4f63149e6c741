"""The self-test: faults are planted in copies of the worker, and the proofs must find each.

The reference is computed by the worker without a fault, in which the proofs must find nothing.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from suite.datasets.inputs import Inputs
from suite.engines.base import Engine, Prepared
from suite.manifests import catalog
from suite.manifests.devices import Devices
from suite.manifests.workloads import (
    PROOF_STEPS,
    BatchNorm,
    Precision,
    Workload,
)
from suite.messages import Notify
from suite.parity.certificates import judged
from suite.parity.keys import reference_of
from suite.parity.prover import Prover
from suite.parity.reference import Reference
from suite.parity.tensors import ProofFailed
from suite.parity.tolerances import rules_of
from suite.protocol.plan import Plan, Run, Trial
from suite.results.record import Parity, Record
from suite.results.store import RunFolder
from suite.runner import plausibility
from suite.runner.execution import Execution, ReadyTrial
from suite.runner.progress import Messages
from suite.runner.selftest.faults import (
    ACCUMULATE_FAULTS,
    BFLOAT16_FAULTS,
    FAULTS,
    INFERENCE_FAULTS,
    LAMB_FAULTS,
    NUMBER_FAULTS,
    RANK_FAULTS,
    RECIPE_FAULTS,
    TEXT_FAULTS,
    TWO_RANKS,
    WEIGHT_FAULTS,
    Fault,
)
from suite.runner.selftest.finding import Finding
from suite.runner.selftest.layer_faults import LAYER_FAULTS
from suite.runner.selftest.timed_faults import DROPOUT_FAULTS, RUN_FAULTS, TIMED_INFERENCE_FAULTS
from suite.runner.selftest.workloads import (
    DROPOUT_WORKLOAD,
    INFERENCE_WORKLOAD,
    OTHER_WORKLOADS,
    RUN_MEASURE,
    RUN_WORKLOAD,
    SAME_INPUTS,
    TEXT_WORKLOAD,
    TIMED_WORKLOADS,
    WORKLOAD,
    workload_of,
)
from suite.runner.support import unsupported_reason

# Makes an engine that runs the worker in a folder.
MakeEngine = Callable[[Path], AbstractContextManager[Engine]]
# The reference of a workload, by the number of slices of the batch with statistics of their own.
References = Callable[[Workload, int], Reference]


@dataclass(frozen=True, kw_only=True)
class SelfTest:
    """`engine` runs the worker without a fault; `prepared` are the frameworks on it."""

    engine: Engine
    prepared: dict[str, Prepared]
    make_engine: MakeEngine
    inputs: Mapping[Workload, Inputs]  # of WORKLOADS
    work_dir: Path
    notify: Notify

    def run(self, plan: Plan) -> Iterator[Finding]:
        """Test each fault in the first trial that it fits, then each trial without a fault.

        A fault whose framework or variant has no trial is omitted. Raise ProofFailed where there is
        no trusted reference, or a worker fails in a proof.
        """
        trials = [*dict.fromkeys(replace(trial, workload=WORKLOAD) for trial in plan.trials)]
        references = functools.cache(functools.partial(self._reference, trials[0]))
        for number, fault in enumerate(self._faults()):
            trial = next((each for each in trials if _fits(fault, each)), None)
            if trial is not None:
                yield self._with_fault(fault, f"fault-{number}", plan, trial, references)
        yield from self._unchanged(plan, trials, references)

    def _reference(self, trial: Trial, workload: Workload, slices: int) -> Reference:
        """The reference of the certificates; each is computed where the first proof needs it."""
        of_work = replace(trial, workload=workload, device="cpu" if slices == 1 else TWO_RANKS)
        name = f"clean-{of_work.device}-{workload.mode}"
        prover = self._prover(self.engine, self.prepared, workload, name)
        return reference_of(prover, of_work)

    def _with_fault(
        self, fault: Fault, name: str, plan: Plan, trial: Trial, references: References
    ) -> Finding:
        """What a worker with the fault is found to do wrong, by the proof that should find it."""
        work = workload_of(fault)
        trial = _in(replace(trial, workload=work), fault.precision)
        trial = _on(trial, fault.device, fault.batch_norm)
        self.notify(f"fault in {trial.framework}: {fault.name}")
        worker = fault.plant(self.work_dir / name / "worker")
        with self.make_engine(worker) as engine:
            framework = catalog.framework(trial.framework)
            prepared = {trial.framework: engine.prepare(framework, self.notify)}
            if fault in (*RUN_FAULTS, *DROPOUT_FAULTS, *TIMED_INFERENCE_FAULTS):
                found = self._timed(engine, prepared, plan, trial, name)
            else:
                own = references(work, trial.slices)
                found = self._proof(engine, prepared, trial, own, name)
        return _finding(fault.name, trial, found)

    def _unchanged(
        self, plan: Plan, trials: list[Trial], references: References
    ) -> Iterator[Finding]:
        """What the proofs find in the worker without a fault; any finding is a false alarm."""
        reference = references(WORKLOAD, 1)
        for trial in trials:
            if unsupported_reason(trial):
                continue
            self.notify(f"without a fault: {trial.configuration}")
            found = self._proof(self.engine, self.prepared, trial, reference, "clean")
            found = found or self._timed(self.engine, self.prepared, plan, trial, "clean")
            yield _finding(None, trial, found)
            yield from self._without_fault(_in(trial, "bf16_mixed"), reference)
            yield from self._without_fault_in_inference(plan, trial, references)
        first = {trial.framework: trial for trial in reversed(trials)}
        for trial in first.values():
            yield from self._without_fault_in_dropout(plan, trial)
            for work in (TEXT_WORKLOAD, *OTHER_WORKLOADS):
                yield from self._without_fault(replace(trial, workload=work), references(work, 1))
        for trial in first.values() if self._has_cores(TWO_RANKS) else ():
            for batch_norm in get_args(BatchNorm):
                on_ranks = _on(trial, TWO_RANKS, batch_norm)
                yield from self._without_fault(on_ranks, references(WORKLOAD, on_ranks.slices))

    def _without_fault(self, trial: Trial, reference: Reference) -> Iterator[Finding]:
        """What the certificate of a trial finds; nothing where the framework cannot run it."""
        if unsupported_reason(trial) is None:
            workload, device = trial.workload, trial.device
            work = f"{workload.precision} on {device}, batch norm {workload.batch_norm}"
            self.notify(f"without a fault: {trial.configuration} in {work}")
            name = f"clean-{device}-{workload.batch_norm}"
            found = self._proof(self.engine, self.prepared, trial, reference, name)
            yield _finding(None, trial, found)

    def _without_fault_in_inference(
        self, plan: Plan, trial: Trial, references: References
    ) -> Iterator[Finding]:
        """What the proofs of inference find; nothing where the framework cannot run it."""
        trial = replace(trial, workload=INFERENCE_WORKLOAD)
        if unsupported_reason(trial) is None:
            self.notify(f"without a fault: inference of {trial.configuration}")
            own = references(INFERENCE_WORKLOAD, 1)
            found = self._proof(self.engine, self.prepared, trial, own, "clean-infer")
            found = found or self._timed(self.engine, self.prepared, plan, trial, "clean")
            yield _finding(None, trial, found)

    def _without_fault_in_dropout(self, plan: Plan, trial: Trial) -> Iterator[Finding]:
        """What the closing proof of a model with dropout finds."""
        trial = replace(trial, workload=DROPOUT_WORKLOAD)
        if unsupported_reason(trial) is None:
            self.notify(f"without a fault: dropout in {trial.configuration}")
            found = self._timed(self.engine, self.prepared, plan, trial, "clean-dropout")
            yield _finding(None, trial, found)

    def _faults(self) -> Iterator[Fault]:
        """The faults that this machine has cores for."""
        yield from (*FAULTS, *NUMBER_FAULTS, *RECIPE_FAULTS, *WEIGHT_FAULTS, *ACCUMULATE_FAULTS)
        yield from (*LAMB_FAULTS, *LAYER_FAULTS)
        yield from (*TEXT_FAULTS, *BFLOAT16_FAULTS)
        yield from (fault for fault in RANK_FAULTS if self._has_cores(fault.device))
        yield from (*INFERENCE_FAULTS, *RUN_FAULTS, *DROPOUT_FAULTS, *TIMED_INFERENCE_FAULTS)

    def _has_cores(self, device: str) -> bool:
        return Devices.parse(device).ranks <= len(self.engine.host["cpus"])

    def _prover(
        self, engine: Engine, prepared: dict[str, Prepared], workload: Workload, name: str
    ) -> Prover:
        folder = self.work_dir / name
        folder.mkdir(parents=True, exist_ok=True)
        # The files of different workloads have equal names.
        work_dir = Path(tempfile.mkdtemp(prefix=f"{workload.model}-", dir=folder))
        return Prover(
            engine=engine,
            prepared=prepared,
            inputs=self.inputs[workload.model_copy(update=SAME_INPUTS)],
            steps=1 if workload.scenario else PROOF_STEPS,
            work_dir=work_dir,
            notify=self.notify,
        )

    def _proof(
        self,
        engine: Engine,
        prepared: dict[str, Prepared],
        trial: Trial,
        reference: Reference,
        name: str,
    ) -> str | None:
        """The error that a certificate finds in the worker; None where it finds none."""
        prover = self._prover(engine, prepared, trial.workload, name)
        found = prover.of_ranks(trial, trial.workload.precision, role="selftest")
        return judged(found, reference, rules_of(trial))[1]

    def _timed(
        self, engine: Engine, prepared: dict[str, Prepared], plan: Plan, trial: Trial, name: str
    ) -> str | None:
        """The error that a timed run finds in the worker; None where it is proven."""
        precision = trial.workload.precision
        if trial.workload not in TIMED_WORKLOADS:
            trial = _in(replace(trial, workload=RUN_WORKLOAD), precision)
        worker = f"{trial.framework}-{trial.variant}-{trial.track}-{trial.workload.mode}"
        folder = RunFolder(self.work_dir / name / worker)
        folder.logs.mkdir(parents=True)
        execution = Execution(
            engine=engine,
            progress=Messages(self.notify),
            reference=lambda: (self.engine, self.prepared),
            measure_peak=None,
            work_dir=self.work_dir,
            plan=replace(plan, measure=RUN_MEASURE, verify_runs=True),
            ready={
                trial.trial_id: ReadyTrial(
                    trial=trial,
                    framework=prepared[trial.framework],
                    inputs=self.inputs[trial.workload.model_copy(update=SAME_INPUTS)],
                    parity=Parity(proven=True),
                )
            },
            folder=folder,
        )
        (record,) = execution.do([Run(trial=trial, repeat=0)])
        return _error_in(record)


def _fits(fault: Fault, trial: Trial) -> bool:
    return fault.framework == trial.framework and fault.variant in (None, trial.variant)


def _error_in(record: Record) -> str | None:
    """What a proof found in a timed run; ProofFailed where the run failed in another way."""
    if record.error and record.error.error_class != plausibility.CLASS:
        raise ProofFailed(f"a run of {record.framework} failed: {record.error.message}")
    return record.error.message if record.error else record.parity.reason


def _on(trial: Trial, device: str, batch_norm: BatchNorm) -> Trial:
    """The trial on another device set of this machine's cores."""
    workload = trial.workload.model_copy(update={"batch_norm": batch_norm})
    ranks = Devices.parse(device).ranks
    return replace(trial, workload=workload, device=device, cpu_parts=ranks)


def _in(trial: Trial, precision: Precision) -> Trial:
    """The trial with products in this precision."""
    return replace(trial, workload=trial.workload.model_copy(update={"precision": precision}))


def _finding(fault: str | None, trial: Trial, caught_by: str | None) -> Finding:
    return Finding(
        fault=fault,
        framework=trial.framework,
        variant=trial.variant,
        precision=trial.workload.precision,
        device=trial.device,
        caught_by=caught_by,
    )
