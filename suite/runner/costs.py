"""What the parts of a plan take at most: an estimate, before anything has been measured.

The rates are those of two slow cores. They only serve to tell a plan of ten minutes from one of an
hour; the display replaces them by the durations of finished runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from suite.datasets import library
from suite.manifests.workloads import Workload
from suite.models import MODELS
from suite.parity.workers import LOWERINGS, MASK_DRAWS, at_once
from suite.protocol.plan import Plan, Trial
from suite.runner.series import closes
from suite.runner.support import unsupported_reason

START_S = 6.0  # of a worker: import of the framework, model, first step
# Of one core, in floating-point operations per second.
FLOAT32_FLOPS = 15e9
FLOAT64_FLOPS = 4e9
# Of a GPU whose rates are unknown, and the share of its measured peak that a step reaches at least.
GPU_FLOPS = 5e12
GPU_SHARE = 0.1
# A proof computes the logits twice, the gradients, and the step.
PASSES = 8 / 3
# Workers of the reference: float64 in both lowerings; then, where the errors of a framework exceed
# the tolerance of 1e-4, float32 in both and perturbed weights in the first.
REFERENCE_WORKERS = {"float64": len(LOWERINGS) + 1, "float32": len(LOWERINGS)}
WARM_STEPS = 16  # that a run of long steps does at least
SERVER_SEARCH_S = 60.0  # for the highest rate of queries, in scenario server
SERVER_TESTS = (
    3  # of the full length: where one does not hold, it is repeated or a lower rate is timed
)
PEAK_S = 60.0
ENVIRONMENT_S = 120.0
DATASET_S = 30.0


@cache
def _at_once(workload: Workload) -> int:
    """The number of workers that prove a workload at the same time."""
    return at_once(MODELS[workload.model](), workload)


@cache
def _flops(model: str, mode: str = "train") -> float:
    """The operations of a training step, or of inference, per sample."""
    return float(MODELS[model]().flops_per_sample(mode))


@cache
def _has_dropout(model: str) -> bool:
    return any(layer.kind == "dropout" for layer in MODELS[model]().leaves())


@dataclass(frozen=True, kw_only=True)
class Costs:
    """The durations of the parts of `plan` on a machine with `cores` cores, in seconds."""

    plan: Plan
    cores: int
    proven: frozenset[str] = frozenset()  # proof trials whose certificate is in the cache
    peak_known: bool = False
    # The measured rates of products on the plan's GPU, by operation (matmul_float32, ...).
    gpu_flops: Mapping[str, float] = field(default_factory=dict)

    def runs_s(self, trial: Trial) -> float:
        """All runs of a trial, at most its budget."""
        if unsupported_reason(trial):
            return 0.0
        repeated_s = self.plan.repeats.at_most * self._run_s(trial)
        closings = self.plan.repeats.at_most if self.plan.verify_runs else 1
        runs_s = repeated_s + self._epochs_s(trial) + closings * self._closing_s(trial)
        return min(runs_s, trial.budget_s or runs_s)

    def proofs_s(self) -> list[float]:
        """The proof of each trial: what none of the trials before it has already made.

        A certificate serves all trials with equal proof trials and all inputs, a reference all
        frameworks too.
        """
        found, certificates, references = [], set(), set()
        for trial in self.plan.trials:
            proof, added_s = trial.proof_trial.of_any_input, 0.0
            if proof.trial_id not in certificates:
                certificates.add(proof.trial_id)
                added_s = self.certificate_s(trial)
            reference = (proof.work, proof.slices)
            if added_s and reference not in references:
                references.add(reference)
                added_s += self.reference_s(trial)
            found.append(added_s)
        return found

    def certificate_s(self, trial: Trial) -> float:
        """The certificate of a trial, without the reference."""
        proof = trial.proof_trial
        if unsupported_reason(trial) or proof.trial_id in self.proven:
            return 0.0
        work = _proof_flops(proof)
        proof_s = START_S + work / self._rate(trial)
        return proof_s / _at_once(proof.workload)

    def reference_s(self, trial: Trial) -> float:
        """The reference of a trial's certificate; it serves all trials of the workload."""
        proof = trial.proof_trial
        work = _proof_flops(proof)
        per_worker = {name: work / self._reference_rate(trial, name) for name in REFERENCE_WORKERS}
        return sum(n * (START_S + per_worker[name]) for name, n in REFERENCE_WORKERS.items())

    def peak_s(self) -> float:
        """The hardware peak, where the plan measures it."""
        return PEAK_S if self.plan.peak and not self.peak_known else 0.0

    def _run_s(self, trial: Trial) -> float:
        measure = self.plan.measure
        step_s = _step_flops(trial.workload) / self._rate(trial)
        warmup_s = measure.max_warmup_blocks * max(measure.block_s, step_s)
        if trial.workload.scenario:
            scenario = trial.workload.scenario
            # The least number counts samples in scenario offline, else calls of the model.
            calls = measure.min_queries / (
                trial.workload.batch_size if scenario == "offline" else 1
            )
            queries_s = min(max(measure.min_query_s, calls * step_s), measure.max_query_s)
            if scenario == "server":
                return START_S + warmup_s + SERVER_SEARCH_S + SERVER_TESTS * queries_s
            return START_S + warmup_s + queries_s
        timed_s = measure.max_warmup_blocks * measure.block_s + measure.max_measure_s
        return START_S + max(timed_s, WARM_STEPS * step_s)

    def _epochs_s(self, trial: Trial) -> float:
        workload = trial.workload
        if not workload.epochs:
            return 0.0
        samples = library.describe(library.of(workload)).samples["train"]
        samples = min(samples, workload.epoch_samples or samples)
        return workload.epochs * samples * _flops(workload.model) / self._rate(trial)

    def _closing_s(self, trial: Trial) -> float:
        """The first lowering in float64 does two steps, or one long one, from two states.

        In a model with dropout it does one for each draw of masks, and one without them.
        """
        workload = trial.workload
        if workload.scenario or not closes(trial):
            return 0.0
        steps = MASK_DRAWS + 1 if _has_dropout(workload.model) else 2
        work = steps * _step_flops(workload)
        return START_S + work / self._reference_rate(trial, "float64")

    def _reference_rate(self, trial: Trial, precision: str) -> float:
        """The rate of the reference, in FLOP/s."""
        if trial.reference == "cpu":
            of_core = {"float64": FLOAT64_FLOPS, "float32": FLOAT32_FLOPS}
            return of_core[precision] * self.cores
        return self._gpu_rate(precision)

    def _rate(self, trial: Trial) -> float:
        """The rate of the trial's steps, in FLOP/s."""
        if trial.devices.kind == "cpu":
            return FLOAT32_FLOPS * self.cores
        mixed = trial.workload.precision == "bf16_mixed"
        return self._gpu_rate("bfloat16" if mixed else "tf32" if trial.runtime.tf32 else "float32")

    def _gpu_rate(self, precision: str) -> float:
        peak = self.gpu_flops.get(f"matmul_{precision}")
        return GPU_SHARE * peak if peak else GPU_FLOPS


def _step_flops(workload: Workload) -> float:
    return workload.batch_size * _flops(workload.model, workload.mode)


def _proof_flops(proof: Trial) -> float:
    workload = proof.workload
    if workload.query_samples:
        return workload.query_samples * _flops(workload.model, workload.mode)
    return PASSES * proof.proof_steps * _step_flops(workload)
