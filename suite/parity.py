"""The proof of sameness: each framework's tensors beside the reference, step by step."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from suite.engines.base import Engine, Prepared, Say
from suite.inputs import Inputs
from suite.paths import digest, home, write_atomically
from suite.plan import Trial
from suite.records import Parity
from suite.reference import LOWERINGS, MOVES, Errors, Reference, compare
from suite.tensors import ProofFailed, Prover

STEPS = 10
TOLERANCE = 1e-4  # relative L2 error of float32 tensors
LOST = 1e-2  # where the logits' tolerance grows beyond this, training is chaotic: nothing is shown
# A gradient jumps where rounding moves an activation over a ReLU's kink, or makes another the
# largest of a pool. No fault comes and goes like that, or is in so few places.
KINK = 1e-2
KINK_STEPS = 2  # of ten
KINK_SHARE = 0.05  # of the parameters
GRADIENT = "gradients"
BY_GRADIENT = (GRADIENT, "weights", "updates")
CERTIFICATE_VERSION = 7  # of the rules by which it is judged


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
    share: float  # the largest error as a share of its tolerance
    steps: int  # that were asked for; as many as `errors` has were judged
    errors: Errors
    raised: Errors  # for each step: tensors whose tolerance is more, since float32 loses more
    kinks: int  # steps in which a gradient jumped at a kink, which is forgiven
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
    steps: int = STEPS,
    fresh: bool = False,
) -> dict[str, Certificate]:
    """A certificate for each trial (of one workload) by trial id, from the cache or made now.

    `prepared` must hold the reference's frameworks too; `work` is a folder for the tensors.
    Raise ProofFailed where the reference cannot be had or its two lowerings disagree.
    """
    certificates = {}
    open_trials = []
    for trial in trials:
        described = _described(engine, trial, prepared[trial.framework], inputs, steps)
        path = _path(digest(f"{key}={value}" for key, value in described.items()))
        cached = None if fresh else _cached(path)
        if cached:
            certificates[trial.trial_id] = cached
        else:
            open_trials.append((trial, described, path))
    if open_trials:
        with tempfile.TemporaryDirectory(prefix="parity-", dir=work) as place:
            prover = Prover(
                engine=engine,
                prepared=prepared,
                inputs=inputs,
                steps=steps,
                work=Path(place),
                say=say,
            )
            reference = reference_of(prover, open_trials[0][0], fresh=fresh)
            for trial, described, path in open_trials:
                certificate = _certify(prover, trial, described, path.stem, reference)
                if certificate.errors:  # a worker that died has proven nothing, either way
                    path.parent.mkdir(parents=True, exist_ok=True)
                    write_atomically(path, json.dumps(asdict(certificate), indent=1))
                certificates[trial.trial_id] = certificate
    return certificates


def _certify(
    prover: Prover, trial: Trial, described: dict[str, str], key: str, reference: Reference
) -> Certificate:
    expected = reference.tensors
    prover.say(f"proving {trial.framework} {trial.variant} on {trial.workload.model}")
    found = Judged(errors=[], raised=[], kinks=0)
    try:
        tensors = prover.tensors(trial, trial.workload.precision, role="parity")
        found = judged(compare(tensors, expected), reference)
        reason = verdict(found.errors, found.raised)
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
        worst=worst(found.errors),
        share=share(found.errors, found.raised),
        steps=prover.steps,
        errors=found.errors,
        raised=found.raised,
        kinks=found.kinks,
        reference_error=reference.disagreement,
        of=described,
    )


@dataclass(frozen=True, kw_only=True)
class Judged:
    """The errors of the steps that can be judged, and for each step the tolerances raised."""

    errors: Errors
    raised: Errors
    kinks: int  # steps in which gradients jumped at a kink, which is forgiven


def judged(errors: Errors, reference: Reference) -> Judged:
    """Judge the errors: where the common tolerance is not enough, ask what float32 itself loses.

    It is asked with one draw of moved weights, and where that does not explain the errors with
    all draws.
    """
    found = Judged(errors=errors, raised=[], kinks=0)
    for moves in (1, MOVES):
        if errors and verdict(found.errors, found.raised) is None:
            break
        found = _judged(errors, reference.float32_tolerances(moves))
    return found


def _judged(errors: Errors, float32: Errors) -> Judged:
    """With a tensor's tolerance raised where float32 itself loses more of it.

    Steps from which on it loses the logits show nothing and are left out. What gradients lose is
    the most that they lose in any step: in which of them an activation falls on the other side of
    a kink is chance.
    """
    lost = [step["logits"] > LOST for step in float32]
    known = float32[: lost.index(True) if True in lost else len(lost)]
    most = {name: max(step[name] for step in known) for name in (known[0] if known else ())}
    raised = [
        {
            name: tolerance
            for name, own in step.items()
            if (tolerance := most[name] if name.startswith(BY_GRADIENT) else own) > TOLERANCE
        }
        for step in known
    ]
    errors = errors[: len(raised)]
    kinks = _kinks(errors, raised)
    steps = {step for step, _ in kinks}
    if len(steps) > KINK_STEPS:
        kinks = _local(errors, raised)
    _forgive(kinks, raised)
    return Judged(errors=errors, raised=raised, kinks=len(steps))


def _kinks(errors: Errors, raised: Errors) -> set[tuple[int, str]]:
    """Steps and parameters whose gradient jumps beyond its tolerance, but not far."""
    return {
        (step, name) for step, quantity, name in _beyond(errors, raised) if quantity == GRADIENT
    }


def _local(errors: Errors, raised: Errors) -> set[tuple[int, str]]:
    """The parameters that are off, but not far, in all steps; none where they are many."""
    names = {name for _, _, name in _beyond(errors, raised)}
    parameters = sum(name.startswith(GRADIENT) for name in (errors[0] if errors else ()))
    if len(names) > KINK_SHARE * parameters:
        return set()
    return {(step, name) for name in names for step in range(len(errors))}


def _beyond(errors: Errors, raised: Errors) -> Iterator[tuple[int, str, str]]:
    """Step, quantity and parameter of what gradients govern and is off by no more than a kink."""
    for step, tensors in enumerate(errors):
        for name, error in tensors.items():
            quantity, _, parameter = name.partition(" ")
            if quantity in BY_GRADIENT and _tolerance(raised, step, name) < error <= KINK:
                yield step, quantity, parameter


def _forgive(kinks: set[tuple[int, str]], raised: Errors) -> None:
    """Raise the tolerance of what jumped, and of its weights and updates from there on."""

    def raise_(step: int, quantity: str, parameter: str) -> None:
        name = f"{quantity} {parameter}"
        raised[step][name] = max(KINK, raised[step].get(name, KINK))

    for step, parameter in kinks:
        raise_(step, GRADIENT, parameter)
        for later in range(step, len(raised)):
            raise_(later, "weights", parameter)
            raise_(later, "updates", parameter)


def verdict(errors: Errors, raised: Errors) -> str | None:
    """Which tensor first goes beyond its tolerance, and by how much; None where none does."""
    if not errors:
        return "float32 itself loses the logits in the first step: nothing can be shown"
    for step, tensors in enumerate(errors):
        for name, error in tensors.items():
            tolerance = _tolerance(raised, step, name)
            if not error <= tolerance:
                return f"step {step}: {name} is off by {error:.1e}, more than {tolerance:.0e}"
    return None


def share(errors: Errors, raised: Errors) -> float:
    """The largest error as a share of its tolerance: at most 1 where all is proven."""
    shares = [
        error / _tolerance(raised, step, name)
        for step, tensors in enumerate(errors)
        for name, error in tensors.items()
    ]
    return max(shares, default=0.0)


def _tolerance(raised: Errors, step: int, name: str) -> float:
    return raised[step].get(name, TOLERANCE) if raised else TOLERANCE


def worst(errors: Errors) -> dict[str, float]:
    """The largest error over all steps of each quantity: logits, loss, gradients, ..."""
    found: dict[str, float] = {}
    for tensors in errors:
        for name, error in tensors.items():
            quantity = name.split()[0]
            found[quantity] = max(error, found.get(quantity, 0.0))
    return found


def reference_of(prover: Prover, trial: Trial, *, fresh: bool = False) -> Reference:
    """The reference of the trial's workload, whoever is compared with it."""
    described = _workload(trial, prover.inputs, prover.steps)
    locks = [prover.prepared[framework].lock_sha256 for framework, _ in LOWERINGS]
    parts = [f"{key}={value}" for key, value in described.items()]
    key = digest([*parts, *locks, prover.engine.worker_sha256, prover.engine.host["cpu"] or ""])
    return Reference(prover=prover, trial=trial, key=key, fresh=fresh)


def _workload(trial: Trial, inputs: Inputs, steps: int) -> dict[str, Any]:
    """What is to be computed."""
    return {
        "model": json.dumps(inputs.architecture.to_json()),
        "inputs": inputs.sha256,
        "normalize": inputs.dataset.normalize.model_dump_json(),
        "batch_size": trial.workload.batch_size,
        "optimizer": trial.workload.proof_optimizer.model_dump_json(),
        "steps": steps,
    }


def _described(
    engine: Engine, trial: Trial, prepared: Prepared, inputs: Inputs, steps: int
) -> dict[str, str]:
    """All that a certificate holds for; a change of any of it voids the certificate."""
    described: dict[str, Any] = {
        "certificate": CERTIFICATE_VERSION,
        **_workload(trial, inputs, steps),
        "framework": trial.framework,
        "variant": trial.variant,
        "device": trial.device,
        "precision": trial.workload.precision,
        "tolerance": TOLERANCE,
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
