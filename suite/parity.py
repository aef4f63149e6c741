"""The proof of sameness: each framework's tensors beside a float64 reference, step by step.

The reference is computed twice, by PyTorch and by JAX in float64, two independent lowerings of
the same architecture; they must agree with each other before either is believed.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suite.attempt import attempt
from suite.engines.base import Engine, Prepared, Say
from suite.inputs import Inputs, write_trial
from suite.manifest import Measure
from suite.paths import digest, home, write_atomically
from suite.plan import Trial
from suite.records import Parity

STEPS = 10
TOLERANCE = 1e-4  # relative L2 error of float32 tensors
REFERENCE_TOLERANCE = 1e-9  # between the two float64 lowerings
REFERENCES = (("pytorch", "eager"), ("jax", "jit"))
DEADLINE_S = 300.0
CERTIFICATE_VERSION = 2  # 1: without the updates

# "logits", "loss", and for each parameter "gradients ...", "weights ..." and "updates ...":
# the change since the initial weights, in which a wrong optimiser shows first.
Tensors = dict[str, NDArray[np.float64]]


class ProofFailed(Exception):
    """No tensors to compare: why."""


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """The result of one comparison, and the digests of all that it holds for."""

    version: int
    key: str
    framework: str
    variant: str
    model: str
    proven: bool
    reason: str | None
    tolerance: float
    worst: dict[str, float]  # quantity (logits, loss, ...) -> largest relative L2 error
    errors: list[dict[str, float]]  # for each step: tensor -> relative L2 error
    reference_error: float  # largest between the two float64 lowerings
    of: dict[str, str]  # what was hashed: model, inputs, workload, lock, worker, cpu

    def mark(self) -> Parity:
        return Parity(proven=self.proven, certificate=self.key, reason=self.reason)


def certify(
    engine: Engine,
    trials: Iterable[Trial],
    prepared: dict[str, Prepared],
    inputs: Inputs,
    *,
    work: Path,
    say: Say,
    fresh: bool = False,
) -> dict[str, Certificate]:
    """A certificate for each trial (of one workload) by trial id, from the cache or made now.

    `prepared` must hold the reference's frameworks too; `work` is a folder for the tensors.
    Raise ProofFailed where the reference cannot be had or its two lowerings disagree.
    """
    certificates = {}
    open_trials = []
    for trial in trials:
        described = _described(engine, trial, prepared[trial.framework], inputs)
        path = _path(digest(f"{key}={value}" for key, value in described.items()))
        cached = None if fresh else _cached(path)
        if cached:
            certificates[trial.trial_id] = cached
        else:
            open_trials.append((trial, described, path))
    if open_trials:
        with tempfile.TemporaryDirectory(prefix="parity-", dir=work) as place:
            proof = _Proof(engine, prepared, inputs, Path(place), say)
            reference = proof.reference(open_trials[0][0])
            for trial, described, path in open_trials:
                certificate = proof.certify(trial, described, path.stem, reference)
                if certificate.errors:  # a worker that died has proven nothing, either way
                    path.parent.mkdir(parents=True, exist_ok=True)
                    write_atomically(path, json.dumps(asdict(certificate), indent=1))
                certificates[trial.trial_id] = certificate
    return certificates


class _Proof:
    def __init__(
        self, engine: Engine, prepared: dict[str, Prepared], inputs: Inputs, work: Path, say: Say
    ) -> None:
        self._engine = engine
        self._prepared = prepared
        self._inputs = inputs
        self._work = work
        self._say = say
        self._reference_error = 0.0
        self._initial = np.load(inputs.weights).astype(np.float64)

    def reference(self, trial: Trial) -> list[Tensors]:
        """The float64 tensors of each step, believed because two lowerings agree on them."""
        first, second = (
            self._tensors(
                replace(trial, framework=framework, variant=variant, device="cpu"), "float64"
            )
            for framework, variant in REFERENCES
        )
        self._reference_error = max(max(step.values()) for step in compare(second, first))
        if self._reference_error > REFERENCE_TOLERANCE:
            raise ProofFailed(
                f"the two float64 references differ by {self._reference_error:.1e}, more than"
                f" {REFERENCE_TOLERANCE:.0e}"
            )
        return first

    def certify(
        self, trial: Trial, described: dict[str, str], key: str, reference: list[Tensors]
    ) -> Certificate:
        self._say(f"proving {trial.framework} {trial.variant} on {trial.workload.model}")
        reason = None
        errors: list[dict[str, float]] = []
        try:
            errors = compare(self._tensors(trial, trial.workload.precision), reference)
            reason = verdict(errors)
        except ProofFailed as error:
            reason = str(error)
        return Certificate(
            version=CERTIFICATE_VERSION,
            key=key,
            framework=trial.framework,
            variant=trial.variant,
            model=trial.workload.model,
            proven=reason is None,
            reason=reason,
            tolerance=TOLERANCE,
            worst=worst(errors),
            errors=errors,
            reference_error=self._reference_error,
            of=described,
        )

    def _tensors(self, trial: Trial, precision: str) -> list[Tensors]:
        """What the worker of `trial` computes in each of the steps."""
        name = f"{trial.framework}-{trial.variant}-{precision}"
        if precision == "float64":
            self._say(f"computing the reference in {trial.framework}, float64")
        folder = self._work / name
        write_trial(
            folder,
            trial,
            self._inputs,
            mode="parity",
            measure=Measure(),
            cpus=self._engine.host["cpus"],
            precision=precision,
            steps=STEPS,
        )
        log = home() / "logs" / f"parity-{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        done = attempt(
            self._engine,
            self._prepared[trial.framework],
            folder,
            name=f"{self._work.name}-{name}",
            log=log,
            deadline_s=DEADLINE_S,
            on_event=lambda event: None,
        )
        if done.error is not None:
            raise ProofFailed(f"{trial.framework} {trial.variant}: {done.error.message}")
        return [self._step(folder / "results", step) for step in range(STEPS)]

    def _step(self, results: Path, step: int) -> Tensors:
        tensors: Tensors = {}
        for name in ("logits", "loss", "gradients", "weights"):
            path = results / f"step{step:02d}_{name}.npy"
            try:
                values = np.load(path).astype(np.float64)
            except (OSError, ValueError) as error:
                raise ProofFailed(f"{path.name}: {error}") from None
            if name in ("logits", "loss"):
                tensors[name] = values
            else:
                tensors.update(self._named(name, values))
            if name == "weights":
                tensors.update(self._named("updates", values - self._initial))
        return tensors

    def _named(self, quantity: str, flat: NDArray[np.float64]) -> Tensors:
        parameters = self._inputs.architecture.parameters()
        stops = np.cumsum([parameter.size for parameter in parameters])
        if flat.shape != (stops[-1],):
            raise ProofFailed(f"{quantity} have shape {flat.shape}, not ({stops[-1]},)")
        parts = np.split(flat, stops[:-1])
        return {
            f"{quantity} {each.name}": part for each, part in zip(parameters, parts, strict=True)
        }


def compare(found: list[Tensors], reference: list[Tensors]) -> list[dict[str, float]]:
    """For each step, the relative L2 error of each tensor."""
    return [
        {name: relative_error(step[name], expected[name]) for name in expected}
        for step, expected in zip(found, reference, strict=True)
    ]


def relative_error(found: NDArray[np.float64], expected: NDArray[np.float64]) -> float:
    """||found - expected|| / ||expected||, infinite where the shapes differ or a value is NaN."""
    if found.shape != expected.shape or not np.isfinite(found).all():
        return float("inf")
    difference, scale = np.linalg.norm(found - expected), np.linalg.norm(expected)
    return float(difference / scale) if scale else float(difference)


def verdict(errors: list[dict[str, float]]) -> str | None:
    """Which tensor first goes beyond the tolerance, and by how much; None where none does."""
    for step, tensors in enumerate(errors):
        for name, error in tensors.items():
            if not error <= TOLERANCE:
                return f"step {step}: {name} is off by {error:.1e}, more than {TOLERANCE:.0e}"
    return None


def worst(errors: list[dict[str, float]]) -> dict[str, float]:
    """The largest error over all steps of each quantity: logits, loss, gradients, ..."""
    largest: dict[str, float] = {}
    for tensors in errors:
        for name, error in tensors.items():
            quantity = name.split()[0]
            largest[quantity] = max(error, largest.get(quantity, 0.0))
    return largest


def _described(engine: Engine, trial: Trial, prepared: Prepared, inputs: Inputs) -> dict[str, str]:
    """All that a certificate holds for; a change of any of it voids the certificate."""
    work = trial.workload
    described: dict[str, Any] = {
        "certificate": CERTIFICATE_VERSION,
        "framework": trial.framework,
        "variant": trial.variant,
        "device": trial.device,
        "model": json.dumps(inputs.architecture.to_json()),
        "inputs": inputs.sha256,
        "normalize": inputs.dataset.normalize.model_dump_json(),
        "batch_size": work.batch_size,
        "precision": work.precision,
        "optimizer": work.optimizer.model_dump_json(),
        "tolerance": TOLERANCE,
        "steps": STEPS,
        "lock": prepared.lock_sha256,
        "image": prepared.image_id,
        "worker": engine.worker_sha256,
        "cpu": engine.host["cpu"],
        "cpus": len(engine.host["cpus"]),
        "gpus": [gpu["name"] for gpu in engine.host["gpus"]] if trial.device != "cpu" else [],
    }
    return {key: str(value) for key, value in described.items()}


def _cached(path: Path) -> Certificate | None:
    """The certificate at `path`; None where there is none that can be read."""
    try:
        return Certificate(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _path(key: str) -> Path:
    return home() / "certificates" / f"{key[:16]}.json"
