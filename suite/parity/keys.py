"""The values on which a certificate and its reference depend."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suite.datasets.inputs import Inputs
from suite.models.architecture import Architecture
from suite.parity import workers
from suite.parity.reference import Reference
from suite.parity.tolerances import rules_of
from suite.paths import digest, tree_sha256
from suite.protocol.plan import Trial

if TYPE_CHECKING:
    from suite.parity.prover import Prover

# What the reference depends on, beside the model and its inputs: of training, and of inference.
OF_STEPS = (
    "batch_size",
    "optimizer",
    "loss",
    "label_smoothing",
    "class_weights",
    "accumulate",
    "steps",
    "slices",
)
OF_INFERENCE = ("query_samples",)
# Facts of a machine that records have since version 12.
SINCE_12 = ("cpu_features", "cpu_quota")


@cache
def code_sha256() -> str:
    """The digest of the host's part of the proofs: how it asks for tensors and judges them."""
    return tree_sha256(Path(__file__).parent)


def reference_of(prover: Prover, trial: Trial, *, fresh: bool = False) -> Reference:
    """The reference of the trial's workload; it serves every framework."""
    described = of_workload(trial, prover.inputs, prover.steps)
    locks = [prover.prepared[framework].lock_sha256 for framework in workers.FRAMEWORKS]
    parts = [f"{key}={value}" for key, value in described.items()]
    host = prover.engine.host
    parts += [host["cpu"] or "", str(host.get("cpu_features")), str(len(host["cpus"]))]
    if trial.reference != "cpu":
        parts += [trial.reference, *map(_described, host["gpus"])]
    key = digest([*parts, *locks, prover.engine.worker_sha256, code_sha256()])
    return Reference(prover=prover, trial=trial, key=key, fresh=fresh)


def of_trial(trial: Trial, architecture: Architecture, steps: int) -> dict[str, Any]:
    """The parts of a certificate's key that follow from its trial alone."""
    workload = trial.workload
    optimizer = workload.proof_optimizer
    return {
        "model": json.dumps(architecture.to_json()),
        "batch_size": workload.batch_size,
        "optimizer": optimizer_of(optimizer.model_dump()) if optimizer else None,
        # Certificates from before there were other losses have none.
        **({"loss": workload.loss} if workload.loss != "cross_entropy" else {}),
        **({"label_smoothing": workload.label_smoothing} if workload.label_smoothing else {}),
        **({"class_weights": workload.class_weights} if workload.class_weights else {}),
        **({"accumulate": workload.accumulate} if workload.accumulate > 1 else {}),
        "scenario": workload.scenario,
        "query_samples": workload.query_samples,
        "steps": steps,
        "slices": trial.slices if architecture.batch_norm_positions else 1,
        "framework": trial.framework,
        "variant": trial.variant,
        "runtime": trial.runtime.model_dump_json(),
        "device": trial.device,
        "cpu_parts": trial.cpu_parts,
        "precision": workload.precision,
        "tolerance": rules_of(trial).tolerance,
        # Of certificates from before there was a choice, it was computed on the CPU.
        **({"reference": trial.reference} if trial.reference != "cpu" else {}),
    }


def optimizer_of(values: Mapping[str, Any]) -> str:
    """An optimizer without unused options, which earlier versions of dlsuite did not have."""
    used = {key: value for key, value in values.items() if value is not None and value is not False}
    return json.dumps(used, separators=(",", ":"))


def of_machine(trial: Trial, machine: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a certificate's key that follow from the machine (worker/host.py)."""
    gpus = machine.get("gpus") or []
    return {
        "cpu": machine.get("cpu"),
        "cpus": len(machine.get("cpus") or []),
        "gpus": [_described(gpu) for gpu in gpus] if trial.devices.kind != "cpu" else [],
        **({"tpus": machine.get("tpus")} if trial.devices.kind == "tpu" else {}),
        **{name: machine[name] for name in SINCE_12 if name in machine},
    }


def _described(gpu: Mapping[str, Any]) -> str:
    """The name of a GPU, and its driver, which compiles a part of the programs."""
    return f"{gpu['name']}, driver {gpu.get('driver_version')}"


def of_workload(trial: Trial, inputs: Inputs, steps: int) -> dict[str, Any]:
    """The values that define the computation."""
    parts = of_trial(trial, inputs.architecture, steps)
    names = OF_INFERENCE if trial.workload.scenario else OF_STEPS
    return {
        "model": parts["model"],
        "inputs": inputs.sha256,
        "normalize": inputs.dataset.normalize.model_dump_json(),
        **{name: parts[name] for name in names if name in parts},
    }
