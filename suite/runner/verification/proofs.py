"""Judges certificates and closing proofs again, and compares records with the verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from suite.manifests import json_file
from suite.parity import certificates, keys
from suite.parity.certificates import CERTIFICATE_VERSION, Certificate
from suite.parity.tolerances import Judged, rules_of, worst
from suite.paths import digest
from suite.protocol.plan import Trial, Work
from suite.results import store
from suite.results.record import Closing, Record
from suite.runner.planfile import Planned
from suite.runner.verification import age, records
from suite.runner.verification.context import Context
from suite.runner.verification.findings import Finding, Note, Outcome, compared, finding

ROUNDING = 1 + 1e-9


def check_certificate(where: str, certificate: Certificate) -> Iterator[Outcome]:
    """Judge the errors of a certificate again, and compute its key."""
    name = Path(where).stem
    yield from compared(where, "key", certificates.key_of(certificate.of), certificate.key)
    yield from compared(where, "name of the file", certificate.key, name)
    if certificate.version != CERTIFICATE_VERSION:
        text = f"version {certificate.version} of the rules, so it is not judged again"
        yield Note(where=where, text=text)
        return
    if any(error < 0 for step in certificate.errors for error in step.values()):
        yield finding(where, "errors", "at least 0", "a negative one")
    judged = Judged(
        errors=certificate.errors, raised=certificate.raised, tolerance=certificate.tolerance
    )
    if certificate.proven and (verdict := judged.verdict):
        yield finding(where, "verdict", verdict, "proven")
    if certificate.proven != (certificate.reason is None):
        yield finding(where, "reason", "one where it is not proven", certificate.reason)
    yield from compared(where, "worst", worst(certificate.errors), certificate.worst)
    yield from compared(where, "share", judged.share, certificate.share)
    for part in ("framework", "variant", "tolerance", "steps"):
        yield from compared(where, part, certificate.of.get(part), str(getattr(certificate, part)))


def check_inputs(
    planned: Planned, certified: Mapping[str, Certificate], found: Iterable[Record]
) -> Iterator[Finding]:
    """Whether the certificates are of the models and the data of the plan."""
    of_work: dict[Work, Certificate] = {}
    trials = {trial.trial_id: trial for trial in planned.plan.trials}
    for record in found:
        certificate = certified.get(record.parity.certificate or "")
        trial = trials.get(record.trial_id)
        if certificate is None or trial is None:
            continue
        first = of_work.setdefault(trial.work, certificate)
        what = f"certificate {certificate.key}: inputs"
        yield from compared(
            f"{record.name}.json", what, first.of.get("inputs"), certificate.of.get("inputs")
        )
    works = planned.plan.works
    certain = works == planned.plan.input_works and set(works) == set(of_work)
    if planned.inputs_sha256 is None or not certain:
        return
    parts = [of_work[work].of.get(name, "") for name in ("model", "inputs") for work in works]
    yield from compared(store.PLAN, "inputs_sha256", digest(parts), planned.inputs_sha256)


def check_record(where: str, record: Record, context: Context) -> Iterator[Outcome]:
    """Compare the parity of a record with its certificate and its closing proof."""
    parity = record.parity
    certificate = context.certificates.get(parity.certificate or "")
    if certificate is not None:
        proven = certificate.proven and (parity.closing is None or parity.closing.proven)
        yield from compared(where, "parity.proven", proven, parity.proven)
        yield from compared(where, "parity.steps", len(certificate.errors), parity.steps)
        yield from compared(where, "parity.accuracy", certificate.accuracy, parity.accuracy)
        if run := context.runs.get(record.name):
            yield from _of_trial(where, run.trial.proof_trial, context, certificate, record)
    elif parity.certificate is None and parity.proven:
        yield finding(where, "parity.proven", "False, it names no certificate", True)
    elif parity.certificate is not None and age.is_recent(context.folder):
        yield finding(where, f"certificate {parity.certificate}", "in the run", "none")
    elif parity.certificate is not None and context.certificates:
        text = f"certificate {parity.certificate} is not in the run, so it is not checked"
        yield Note(where=where, text=text)
    if context.planned.plan.verify_runs and record.status == "ok" and not parity.closing:
        yield finding(where, "parity.closing", "one, the plan proves every run", None)
    if parity.closing:
        tolerance = rules_of(records.trial_of(record)).tolerance
        yield from _closing(where, parity.closing, tolerance)


def _of_trial(
    where: str, trial: Trial, context: Context, certificate: Certificate, record: Record
) -> Iterator[Finding]:
    """Compare the parts on which a certificate depends with the trial, the plan and the machine."""
    machine = record.environment
    described = context.inputs.get((trial.workload.model, trial.workload.dataset))
    of_trial = keys.of_trial(trial, described.architecture, trial.proof_steps) if described else {}
    parts = {
        **of_trial,
        "worker": context.planned.worker_sha256,
        "lock": machine.get("lock_sha256"),
        "image": record.image_id,
        **keys.of_machine(trial, machine),
    }
    model = f"certificate {certificate.key}: model"
    yield from compared(where, model, trial.workload.model, certificate.model)
    expected = {name: str(value) for name, value in parts.items()}
    found = {name: certificate.of.get(name) for name in expected}
    found["optimizer"] = _without_unused(found.get("optimizer"))
    yield from compared(where, f"certificate {certificate.key}", expected, found)
    # A step in which rounding errors explode is never part of a certificate.
    exploded = rules_of(trial).exploded
    for step, raised in enumerate(certificate.raised):
        if (logits := raised.get("logits", 0.0)) > exploded:
            what = f"certificate {certificate.key}: tolerance of the logits in step {step}"
            yield finding(where, what, f"at most {exploded:g}", f"{logits:g}")


def _without_unused(optimizer: str | None) -> str | None:
    """The optimizer of a certificate, as keys.of_trial writes it; other texts as they are."""
    try:
        return keys.optimizer_of(json_file.loads(optimizer or ""))
    except (ValueError, AttributeError):
        return optimizer


def _closing(where: str, closing: Closing, tolerance: float) -> Iterator[Finding]:
    """Whether a closing proof agrees with its own share of the tolerance.

    No tolerance is less than the common one, so the share is at most the largest error over that.
    """
    what = "parity.closing"
    if closing.proven and closing.reason is not None:
        yield finding(where, f"{what}.proven", f"False ({closing.reason})", True)
    if closing.proven and closing.share is None:
        yield finding(where, f"{what}.share", "a share of the tolerance", None)
    if closing.share is None:
        return
    if closing.proven and closing.share > 1:
        yield finding(where, f"{what}.proven", f"False, the share is {closing.share:.2g}", True)
    errors = [error for error in closing.worst.values() if error is not None]
    largest = max(errors, default=0.0) / tolerance
    if closing.share > largest * ROUNDING:
        yield finding(where, f"{what}.share", f"at most {largest:.3g}", f"{closing.share:.3g}")
