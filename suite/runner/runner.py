"""Turns a plan into records: prepares, proves, measures the peak, and runs."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from suite.datasets import obtain
from suite.datasets.inputs import Inputs
from suite.engines.base import Engine, Prepared
from suite.errors import UsageError
from suite.manifests.devices import KINDS, ReferenceChoice
from suite.parity import certificates
from suite.parity.certificates import Certificate
from suite.parity.tensors import ProofFailed, ReferencesDisagree
from suite.protocol import trial_file
from suite.protocol.plan import Plan, Trial, Work
from suite.results import certificate, checksums, roofline
from suite.results.record import Error, Parity, Record
from suite.results.roofline import HardwarePeak
from suite.results.store import RunFolder
from suite.runner import peak, reference_device, sources, stages, starts, stopping
from suite.runner.execution import Execution, ReadyTrial
from suite.runner.frameworks import Frameworks, Unavailable
from suite.runner.load import Load, named
from suite.runner.progress import STAGES, Progress, Stage
from suite.runner.reference_device import Placing
from suite.runner.series import Outcomes


class Runner:
    """Runs plans on one engine; `work_dir` is a folder for temporary files of the runs."""

    def __init__(self, engine: Engine, progress: Progress, work_dir: Path) -> None:
        self.engine = engine
        self.work_dir = work_dir
        self.frameworks = Frameworks(engine, progress.notify)
        self._progress = progress
        self._load = Load()

    def prepare(
        self,
        plan: Plan,
        of_command: tuple[Stage, ...] = STAGES,
        *,
        done: Sequence[Record] = (),
    ) -> dict[Work, Inputs]:
        """Prepare the plan's datasets and frameworks; return the inputs of each workload and seed.

        Raise DataError where a dataset is unavailable, or does not fit into memory, and UsageError
        where a node has too few cores or GPUs for its ranks.
        """
        self._check_devices(plan)
        self._progress.planned(plan, of_command, done)
        self._progress.stage("data")
        by_work = self.inputs(plan)
        self._progress.stage("environments")
        self.frameworks.prepare(plan.frameworks)
        if "parity" in of_command:
            with suppress(ProofFailed):  # then the certificates have the reason
                self.frameworks.with_reference()
        self._check_devices(plan)  # a container engine knows them only from an image
        workers: dict[Work, int] = {}
        for group in plan.groups:
            work = group[0].trial.work
            at_once = len(group) * max(run.trial.devices.ranks for run in group)
            workers[work] = max(at_once, workers.get(work, 0))
        for work, at_once in workers.items():
            by_work[work].must_fit(work[0], self.engine.host["memory_bytes"], at_once)
        return by_work

    def _check_devices(self, plan: Plan) -> None:
        """Raise UsageError where a node has too few cores or GPUs for its ranks."""
        host = self.engine.host
        for trial in plan.trials:
            if trial.devices.nodes == 1:
                trial_file.cpus_of(trial, trial_file.Node(), host["cpus"])
            kind, needed = trial.devices.kind, trial.devices.per_node
            title, seen = KINDS[kind].title, len(host.get(KINDS[kind].facts) or [])
            if kind != "cpu" and 0 < seen < needed:
                option = f"--{title.lower()}s {needed}"
                raise UsageError(
                    f"{trial.device} needs {needed} {title}s on a node, the workers see {seen}",
                    hint=f"{option}, or name the device sets: --devices {kind}:{seen}",
                )
            if kind == "cuda":
                check_compute_modes(host["gpus"], needed, interleaved=plan.interleave)

    def run(
        self,
        plan: Plan,
        by_work: dict[Work, Inputs],
        folder: RunFolder,
        *,
        done: Iterable[Record] = (),
        fresh_peak: bool = False,
        sign: Callable[[Path], object] | None = None,
    ) -> list[Record]:
        """Do the runs of the plan that are not `done`; return the records of all.

        Of a staged plan, each workload is proven right before its runs.

        `by_work` is the result of `prepare`. Each run ends as a record, written at once; SHA256SUMS
        follows at the end. `sign` gets the description of this start before anything is run.
        Raise EngineLost where the engine stops answering: the remaining runs can be resumed.
        """
        records = stopping.without_partial_groups(plan, done)
        with folder.writing(starts.FOLDER):
            started = starts.write(folder.path, self.engine.host, done=len(records))
        if sign:
            sign(started)
        self._progress.stage("parity")
        ready = {} if plan.staged else self._ready(plan, by_work, folder)
        with folder.writing(sources.WORKER_FOLDER):
            sources.write(folder.path, self.engine.worker, self.frameworks.prepared.values())
            sources.describe(folder.path, by_work)
        if plan.peak:
            self._progress.stage("peak")
            self._write_peak(plan, by_work, folder, fresh=fresh_peak)
        self._progress.stage("runs")
        local = _on_this_machine(self.engine)
        if local and (busy := self._load.wait_and_look()):
            self._progress.notify(f"this machine is busy, end these processes: {named(busy)}")
        execution = Execution(
            engine=self.engine,
            progress=self._progress,
            reference=lambda: (self.engine, self.frameworks.with_reference()),
            measure_peak=lambda: self._larger_peak(plan, by_work),
            work_dir=self.work_dir,
            plan=plan,
            ready=ready,
            folder=folder,
            load=self._load if local else None,
            outcomes=Outcomes(records),
        )
        finished, time_left = stopping.Finished(records), stages.time_left(plan)
        for group in plan.groups:
            if plan.staged and group[0].trial.trial_id not in ready:
                stage = stages.of(plan, group[0].trial)
                starts_now = time_left()
                ready |= (
                    self._ready(stage, by_work, folder)
                    if starts_now
                    else self._too_late(stage, by_work)
                )
            new = execution.do(stopping.needed(plan, group, finished))
            finished.add(new)
            records += new
        with folder.writing(checksums.NAME):
            checksums.write(folder.path)
        return records

    def proven(self, plan: Plan, by_work: dict[Work, Inputs]) -> frozenset[str]:
        """The ids of the proof trials whose certificate is in the cache, after `prepare`."""
        proofs = {each.proof_trial.trial_id: each.proof_trial for each in plan.trials}
        return frozenset(
            name
            for name, proof in proofs.items()
            if isinstance(prepared := self.frameworks.of(proof), Prepared)
            and certificates.cached(self.engine, proof, prepared, by_work[proof.work])
        )

    def placed(self, plan: Plan, by_work: dict[Work, Inputs], choice: ReferenceChoice) -> Plan:
        """The plan with the device of its references, after `prepare`."""
        placing = self._placing(plan, by_work)
        return plan.with_reference(placing.place(choice)) if placing else plan

    def gpu_flops(self, plan: Plan, by_work: dict[Work, Inputs]) -> dict[str, float]:
        """The rates of products on the plan's GPU, in FLOP/s by operation; none on a CPU.

        After `prepare`. They are measured unless that was done within a day.
        """
        kind, placing = plan.trials[0].devices.kind, self._placing(plan, by_work)
        if kind == "cpu" or placing is None:
            return {}
        cache = self._peak_cache(plan)
        found = cache.read()
        if found is None:
            found = self.measure_peak(plan, by_work)
            cache.write(found)
        rates = {name: best.work_per_s for name, best in found.best.items()}
        float64 = placing.rate(kind)
        return rates | ({reference_device.OPERATION: float64} if float64 else {})

    def _placing(self, plan: Plan, by_work: dict[Work, Inputs]) -> Placing | None:
        """None where a framework of the reference is missing: the certificates have the reason."""
        try:
            prepared = self.frameworks.with_reference()
        except ProofFailed:
            return None
        first = plan.trials[0]
        return Placing(
            engine=self.engine,
            prepared=prepared,
            trial=first,
            inputs=by_work[first.work],
            work_dir=self.work_dir,
            notify=self._progress.notify,
        )

    def peak_known(self, plan: Plan) -> bool:
        """Whether the hardware peak of the plan's device is in the cache, after `prepare`."""
        return self._peak_cache(plan).read() is not None

    def inputs(self, plan: Plan) -> dict[Work, Inputs]:
        """The inputs of each workload and seed, and of each batch size that is certified.

        Raise DataError where a dataset is unavailable.
        """
        return {
            (workload, seed): obtain.obtain(
                workload,
                seed=seed,
                folder=self.work_dir / f"inputs-{number}",
                notify=self._progress.notify,
            )
            for number, (workload, seed) in enumerate(plan.input_works)
        }

    def certify(
        self, trials: list[Trial], workload_inputs: Inputs, *, fresh: bool
    ) -> dict[str, Certificate | ProofFailed]:
        """The certificates, by trial id, of those trials (of one work) that can run here.

        ProofFailed where a trial has no trusted reference.
        """
        try:
            prepared = self.frameworks.with_reference(trial.framework for trial in trials)
        except ProofFailed as error:
            return {trial.trial_id: error for trial in trials}
        can_run = [t for t in trials if not isinstance(self.frameworks.of(t), Unavailable)]
        return certificates.certify(
            self.engine,
            can_run,
            prepared,
            workload_inputs,
            work_dir=self.work_dir,
            notify=self._progress.notify,
            steps=trials[0].proof_steps,
            fresh=fresh,
        )

    def measure_peak(
        self, plan: Plan, by_work: dict[Work, Inputs], *, everything: bool = False
    ) -> HardwarePeak:
        """Measure the peak of the plan's device with the frameworks that are ready.

        `everything`: also in precisions that no workload uses.
        """
        trial = plan.trials[0]
        return peak.measure(
            self.engine,
            trial,
            self.frameworks.prepared,
            by_work[trial.work],
            work_dir=self.work_dir,
            notify=self._progress.notify,
            everything=everything,
        )

    def _larger_peak(self, plan: Plan, by_work: dict[Work, Inputs]) -> HardwarePeak:
        """Measure the peak again; keep the larger rates, because something slowed the others."""
        cache, found = self._peak_cache(plan), self.measure_peak(plan, by_work)
        if known := cache.read():
            found = roofline.larger(known, found)
        cache.write(found)
        return found

    def _peak_cache(self, plan: Plan) -> peak.Cache:
        return peak.Cache(self.engine, plan.trials[0].devices.kind, self.frameworks.prepared)

    def _write_peak(
        self,
        plan: Plan,
        by_work: dict[Work, Inputs],
        folder: RunFolder,
        *,
        fresh: bool,
    ) -> None:
        """Write the device's peak into the run's folder: from the cache, or measured now."""
        if roofline.read(folder.path) is not None:
            return
        cache = self._peak_cache(plan)
        found = None if fresh else cache.read()
        if found is None:
            found = self.measure_peak(plan, by_work)
            cache.write(found)
        if found.best:
            with folder.writing(roofline.NAME):
                roofline.write(folder.path, found)

    def _ready(
        self, plan: Plan, by_work: dict[Work, Inputs], folder: RunFolder
    ) -> dict[str, ReadyTrial]:
        """Each trial, by its id, with its framework, its inputs and its parity status."""
        proofs: dict[Work, dict[str, Trial]] = {}
        for trial in plan.trials:
            proof = trial.proof_trial
            proofs.setdefault(proof.work, {})[proof.trial_id] = proof
        found: dict[str, Certificate | ProofFailed] = {}
        for work, trials in proofs.items():
            found |= self._certified([*trials.values()], by_work[work], folder)
        ready = {}
        for trial in plan.trials:
            result = found.get(trial.proof_trial.trial_id)
            unprovable = _unprovable(result) if isinstance(result, ReferencesDisagree) else None
            ready[trial.trial_id] = ReadyTrial(
                trial=trial,
                framework=unprovable or self.frameworks.of(trial),
                inputs=by_work[trial.work],
                parity=_status(result),
            )
        return ready

    def _too_late(self, stage: Plan, by_work: dict[Work, Inputs]) -> dict[str, ReadyTrial]:
        """The trials of a stage that does not start, because the time is up."""
        message = f"the limit of {stage.max_time} was reached before it"
        unavailable = Unavailable("skipped", Error(error_class="TimeLimit", message=message))
        return {
            trial.trial_id: ReadyTrial(
                trial=trial,
                framework=unavailable,
                inputs=by_work[trial.work],
                parity=_status(None),
            )
            for trial in stage.trials
        }

    def _certified(
        self, trials: list[Trial], workload_inputs: Inputs, folder: RunFolder
    ) -> dict[str, Certificate | ProofFailed]:
        """The certificates of a workload and seed, which are copied into the folder of the run."""
        found = self.certify(trials, workload_inputs, fresh=False)
        with folder.writing(certificate.FOLDER):
            made = [each for each in found.values() if isinstance(each, Certificate)]
            certificates.keep(folder.path, made)
        return found


def check_compute_modes(
    gpus: Sequence[Mapping[str, Any]], ranks: int, *, interleaved: bool
) -> None:
    """Raise UsageError where the mode of a GPU excludes workers that the plan starts on it."""
    modes = {str(gpu.get("compute_mode")): gpu["name"] for gpu in gpus}
    for mode, name in modes.items():
        exclusive = mode.startswith("Exclusive") and interleaved
        if exclusive or mode == "Prohibited":
            why = ", and --interleave starts several workers on it" if exclusive else ""
            raise UsageError(
                f"the compute mode of {name} is {mode}{why}",
                hint="nvidia-smi --compute-mode=DEFAULT"
                + (", or omit --interleave" if exclusive else ""),
            )
    slices = sum("slice" in gpu for gpu in gpus)
    if ranks > 1 and slices:
        raise UsageError(
            f"{ranks} devices train together, and the GPUs are MIG slices, which cannot",
            hint="--gpus 1, or disable MIG: nvidia-smi --multi-instance-gpu=0",
        )


def _on_this_machine(engine: Engine) -> bool:
    """Whether the workers run on the machine of this process."""
    if engine.name == "venv":
        return True
    of_engine = engine.host.get("engine") or {}
    return engine.name == "docker" and of_engine.get("name") == platform.node()


def _unprovable(error: ReferencesDisagree) -> Unavailable:
    """Why the runs of a workload without a reference are not executed: nothing can prove them."""
    hint = "docs/reference/proofs.md#reference"
    return Unavailable(
        "failed", Error(error_class="ReferencesDisagree", message=str(error), hint=hint)
    )


def _status(found: Certificate | ProofFailed | None) -> Parity:
    """The parity status of a trial; `found` is None where the trial cannot run."""
    if isinstance(found, Certificate):
        return found.status()
    return Parity(proven=False, reason=str(found or "not compared"))
