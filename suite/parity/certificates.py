"""Certificates: each framework's first training steps compared with the reference."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from suite.datasets.inputs import Inputs
from suite.engines.base import Engine, Prepared
from suite.engines.parallel import in_parallel
from suite.errors import ResultsError
from suite.manifests.strict import first_problem
from suite.messages import Notify
from suite.parity import running_means
from suite.parity.errors import Errors, compare_ranks
from suite.parity.keys import code_sha256, of_machine, of_trial, of_workload, reference_of
from suite.parity.prover import Prover
from suite.parity.reference import Reference, storage_errors
from suite.parity.scale import wrong_scale
from suite.parity.tensors import ProofFailed, Tensors
from suite.parity.tolerances import (
    Judged,
    Rules,
    judge,
    loss_in_bfloat16,
    rules_of,
    too_accurate,
    worst,
)
from suite.paths import digest, home, write_atomically
from suite.protocol.plan import Trial
from suite.results.certificate import FOLDER, dumped, loaded
from suite.results.record import Parity
from suite.worker.losses import predictions

CERTIFICATE_VERSION = 17  # of the file

# A trial without a certificate, what the certificate depends on, and its file.
OpenTrial = tuple[Trial, dict[str, str], Path]


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """The result of one comparison, and the digests of everything that it depends on."""

    version: int
    key: str
    framework: str
    variant: str
    track: str
    model: str
    proven: bool
    reason: str | None
    tolerance: float
    worst: dict[str, float]  # quantity (logits, loss, ...) -> largest relative L2 error
    share: float  # the largest error as a share of its tolerance
    steps: int  # requested; `errors` has the judged ones
    errors: Errors
    raised: Errors  # for each step: the tensors with a wider tolerance, that of the rounding
    reference_error: float  # largest error between the two float64 lowerings
    of: dict[str, str]  # the parts of the key: model, inputs, workload, lock, worker, cpu
    # Tensors of the first step that are 0 up to rounding (docs/reference/proofs.md); not known
    # before version 17.
    zeros: list[str] = field(default_factory=list)
    # Of inference with weights of the user: the share of right answers to all queries' samples.
    accuracy: float | None = None

    def status(self) -> Parity:
        """The parity status of runs that this certificate covers."""
        return Parity(
            proven=self.proven,
            steps=len(self.errors),
            certificate=self.key,
            reason=self.reason,
            accuracy=self.accuracy,
        )


def certify(
    engine: Engine,
    trials: Iterable[Trial],
    prepared: dict[str, Prepared],
    inputs: Inputs,
    *,
    work_dir: Path,
    notify: Notify,
    steps: int,
    fresh: bool,
) -> dict[str, Certificate | ProofFailed]:
    """A certificate for each trial (of one workload) by trial id, from the cache or made now.

    `prepared` must contain the reference's frameworks too; `work_dir` is the folder of the tensors.
    ProofFailed where the trial's reference cannot be computed or its two lowerings disagree.
    """
    certificates: dict[str, Certificate | ProofFailed] = {}
    open_trials: list[OpenTrial] = []
    for trial in trials:
        described = described_of(engine, trial, prepared[trial.framework], inputs, steps)
        path = _path(key_of(described))
        cached = None if fresh else _cached(path)
        if cached:
            certificates[trial.trial_id] = cached
        else:
            open_trials.append((trial, described, path))
    # Ranks have statistics of batch norm of their own, and so has their reference.
    open_trials.sort(key=lambda each: each[0].slices)
    for _, of_slices in groupby(open_trials, key=lambda each: each[0].slices):
        with tempfile.TemporaryDirectory(prefix="parity-", dir=work_dir) as folder:
            prover = Prover(
                engine=engine,
                prepared=prepared,
                inputs=inputs,
                steps=steps,
                work_dir=Path(folder),
                notify=notify,
            )
            certificates |= _made(prover, list(of_slices), fresh=fresh)
    return certificates


def _made(
    prover: Prover, open_trials: list[OpenTrial], *, fresh: bool
) -> dict[str, Certificate | ProofFailed]:
    """Certificates of trials that have one reference, made now and written to the cache."""
    trials = [trial for trial, _, _ in open_trials]
    reference = reference_of(prover, trials[0], fresh=fresh)
    try:
        tensors = _tensors(prover, reference, trials)
    except ProofFailed as error:
        return {trial.trial_id: error for trial in trials}
    made: dict[str, Certificate | ProofFailed] = {}
    for trial, described, path in open_trials:
        found = tensors[trial.trial_id]
        certificate = _certify(found, trial, described, path.stem, reference)
        if certificate.errors:  # none where the worker failed
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, certificate)
        made[trial.trial_id] = certificate
    return made


def cached(engine: Engine, trial: Trial, prepared: Prepared, inputs: Inputs) -> Certificate | None:
    """The trial's certificate in the cache; None where there is none."""
    described = described_of(engine, trial, prepared, inputs, trial.proof_steps)
    return _cached(_path(key_of(described)))


def key_of(described: dict[str, str]) -> str:
    """The key of the certificate that depends on these parts."""
    return digest(f"{name}={value}" for name, value in described.items())[:16]


def keep(folder: Path, found: Iterable[Certificate]) -> None:
    """Write copies of certificates into a run's folder; raise OSError where that fails."""
    place = folder / FOLDER
    place.mkdir(exist_ok=True)
    for certificate in found:
        _write(place / f"{certificate.key}.json", certificate)


def _write(path: Path, certificate: Certificate) -> None:
    write_atomically(path, dumped(asdict(certificate)))


def read(path: Path) -> Certificate:
    """The certificate in a file; ResultsError where it is not one."""
    try:
        return TypeAdapter(Certificate).validate_python(loaded(path.read_bytes()))
    except (AttributeError, OSError, ValueError, LookupError, TypeError) as error:
        reason = first_problem(error) if isinstance(error, ValidationError) else str(error)
        raise ResultsError(
            f"{path}: not a certificate: {reason}", hint="ask for the run again"
        ) from None


def _tensors(
    prover: Prover, reference: Reference, trials: Sequence[Trial]
) -> dict[str, list[list[Tensors]] | ProofFailed]:
    """Of each trial, by its id, the tensors of each rank in each step.

    Those of small workloads are computed in parallel.
    """
    _ = reference.tensors  # raises ProofFailed where there is nothing to compare with

    def of(trial: Trial) -> list[list[Tensors]] | ProofFailed:
        model = trial.workload.model
        prover.notify(f"comparing {trial.configuration} with the reference on {model}")
        try:
            return prover.of_ranks(trial, trial.workload.precision, role="parity")
        except ProofFailed as error:
            return error

    found = in_parallel(prover.engine, of, trials, at_once=prover.at_once(trials[0]))
    return {trial.trial_id: tensors for trial, tensors in zip(trials, found, strict=True)}


def _certify(
    tensors: list[list[Tensors]] | ProofFailed,
    trial: Trial,
    described: dict[str, str],
    key: str,
    reference: Reference,
) -> Certificate:
    rules = rules_of(trial)
    found = Judged(errors=[], raised=[], tolerance=rules.tolerance)
    try:
        if isinstance(tensors, ProofFailed):
            raise tensors
        found, reason = judged(tensors, reference, rules)
    except ProofFailed as error:
        reason = str(error)
    return Certificate(
        version=CERTIFICATE_VERSION,
        key=key,
        framework=trial.framework,
        variant=trial.variant,
        track=trial.track,
        model=trial.workload.model,
        proven=reason is None,
        reason=reason,
        tolerance=found.tolerance,
        worst=worst(found.errors),
        share=found.share,
        steps=reference.prover.steps,
        errors=found.errors,
        raised=found.raised,
        zeros=reference.zeros,
        reference_error=reference.disagreement,
        of=described,
        accuracy=_accuracy(tensors, trial, reference.prover.inputs),
    )


def _accuracy(
    tensors: list[list[Tensors]] | ProofFailed, trial: Trial, inputs: Inputs
) -> float | None:
    """The share of right answers in inference with weights of the user; None where it is unknown.

    Other weights are random, and their answers too.
    """
    labels = inputs.data / "test_labels.npy"
    workload = trial.workload
    known = workload.scenario and workload.weights_sha256 and labels.is_file()
    if not known or isinstance(tensors, ProofFailed):
        return None
    predicted = predictions(workload.loss, tensors[0][0]["logits"])
    if predicted is None:
        return None
    return float(np.mean(predicted == np.load(labels, mmap_mode="r")[: len(predicted)]))


def judged(
    tensors: list[list[Tensors]], reference: Reference, rules: Rules
) -> tuple[Judged, str | None]:
    """The judged steps, and why they are not those of the reference; None where they are.

    `tensors` are those of each rank in each step.
    """
    errors = compare_ranks(tensors, reference.tensors)
    found = judge(
        errors,
        lambda draws: reference.rounding_tolerances(draws, rules),
        rules,
        least=_known(reference, rules),
    )
    return found, found.verdict or _other_reason(tensors, reference, rules, found.errors)


def _known(reference: Reference, rules: Rules) -> Errors:
    """The tolerances that follow from the reference's own tensors."""
    # The lowerings in float32 store weights as the frameworks do, those in float64 do not.
    if rules.rounding != "float32":
        return reference.storage_tolerances(reference.tensors)
    workload, model = reference.trial.workload, reference.prover.inputs.architecture
    size, updates = workload.micro_batch_size, workload.accumulate
    return running_means.tolerances(reference.tensors, model, size, updates=updates)


def _other_reason(
    tensors: list[list[Tensors]], reference: Reference, rules: Rules, errors: Errors
) -> str | None:
    """Why tensors that are within their tolerances are not proven; None where they are.

    `errors` are those of the judged steps.
    """
    reason = untested(reference.tensors[: len(errors)], reference.zeros)
    reason = reason or wrong_scale([of_rank[0] for of_rank in tensors], reference, rules)
    if reason is None and rules.two_sided:
        storage = storage_errors(reference)
        losses = [step for of_rank in tensors for step in of_rank]
        reason = too_accurate(errors[0], reference.rounding_errors(rules)[0], storage)
        reason = reason or loss_in_bfloat16(losses)
    return reason


def untested(steps: Sequence[Tensors], rounding: Sequence[str] = ()) -> str | None:
    """That a gradient is 0 in all steps, which shows nothing of its computation; None: none is.

    The `rounding` of a gradient in the first step shows that it is computed.
    """
    names = [name for name in steps[0] if name.startswith("gradients")]
    zero = [name for name in names if not any(np.any(step[name]) for step in steps)]
    zero = [name for name in zero if name not in rounding]
    if not zero:
        return None
    return (
        f"the {zero[0]} are 0 in all compared steps, and so are {len(zero)} of {len(names)}"
        " gradients: compare more steps"
    )


def described_of(
    engine: Engine, trial: Trial, prepared: Prepared, inputs: Inputs, steps: int
) -> dict[str, str]:
    """Everything that a certificate depends on; a change of any part invalidates it."""
    described: dict[str, Any] = {
        "certificate": CERTIFICATE_VERSION,
        "rules": code_sha256(),
        **of_workload(trial, inputs, steps),
        **of_trial(trial, inputs.architecture, steps),
        "lock": prepared.lock_sha256,
        "image": prepared.image_id,
        "worker": engine.worker_sha256,
        **of_machine(trial, engine.host),
    }
    return {key: str(value) for key, value in described.items()}


def _cached(path: Path) -> Certificate | None:
    """The certificate at `path`; None where it is missing or unreadable."""
    try:
        return Certificate(**loaded(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _path(key: str) -> Path:
    return home() / FOLDER / f"{key}.json"
