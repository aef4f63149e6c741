"""Verifies the folder of a run that somebody else made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from suite.errors import ResultsError
from suite.manifests import json_file
from suite.parity import certificates
from suite.parity.certificates import Certificate
from suite.paths import WORKER, tree_sha256
from suite.results import checksums, roofline, store
from suite.results.certificate import FOLDER
from suite.results.record import SCHEMA_VERSION, Record
from suite.runner import planfile
from suite.runner.planfile import OtherVersion, Planned
from suite.runner.verification import (
    age,
    clocks,
    events,
    files,
    inputs,
    losses,
    machine,
    plans,
    proofs,
    records,
    rented,
    witness,
)
from suite.runner.verification.context import Context
from suite.runner.verification.findings import Finding, Note, Outcome, finding
from suite.runner.verification.inputs import Known


@dataclass(kw_only=True)
class Verification:
    """The outcome for one run."""

    records: int
    certificates: int
    findings: list[Finding] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def add(self, outcomes: Iterable[Outcome], where: str = "run") -> None:
        """Sort outcomes about the file `where` into findings and notes."""
        for outcome in _safely(outcomes, where):
            if isinstance(outcome, Finding):
                self.findings.append(outcome)
            else:
                self.notes.append(outcome)


def _safely(outcomes: Iterable[Outcome], where: str) -> Iterator[Outcome]:
    """The outcomes; values that no run can have, such as a block of no duration, end them."""
    try:
        yield from outcomes
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        yield finding(where, "values", "possible ones", f"{type(error).__name__}: {error}")


def verify(folder: Path, signers: tuple[Path, str | None] | None = None) -> Verification:
    """Check the checksums of a run, and compute again what can be computed.

    `signers`: the file of the allowed ones, and the principal who must be the signer; None: the
    signatures are not checked. Raise ResultsError where `folder` has no records.
    """
    files.must_be_regular(folder)
    if not store.record_files(folder):
        raise ResultsError(f"{folder} has no records", hint="dlsuite verify RUN")
    outcomes: list[Outcome] = [*files.check(folder)]
    begun = machine.read_starts(folder, outcomes)
    proven = _certificates(folder, outcomes)
    found = _records(folder, outcomes)
    planned = _planned(folder, outcomes)
    pairs = {(each.workload.model, each.workload.dataset) for each in found.values()}
    known, about_inputs = inputs.known(folder, pairs, proven)
    outcomes += about_inputs
    verification = Verification(records=len(found), certificates=len(proven))
    verification.add(outcomes)
    if signers is not None:
        verification.add(witness.check(folder, *signers))
    verification.add(plans.check_peak(folder))
    if planned is not None:
        verification.add(plans.check(folder, planned))
        all_records, plan = [*found.values()], planned.plan
        verification.add(_missing(folder, all_records))
        verification.add(machine.check_peak(folder, planned, all_records))
        verification.add(machine.check_environments(all_records, plan, begun))
        verification.add(proofs.check_inputs(planned, proven, all_records))
        verification.add(clocks.check(folder, plan, all_records, begun))
    verification.add(rented.check(folder, [*found.values()]))
    verification.add(_run_ids(folder, [*found.values()]))
    verification.add(losses.check(folder, found, known))
    same_worker = planned is not None and planned.worker_sha256 == tree_sha256(WORKER)
    for where, record in found.items():
        verification.add(_alone(where, record, folder, known, same_worker=same_worker), where)
    if planned is not None:
        context = Context(
            folder=folder,
            planned=planned,
            runs={run.name: run for run in planned.plan.runs},
            certificates=proven,
            peak=roofline.read(folder),
            inputs=known,
        )
        for where, record in found.items():
            verification.add(_in_plan(where, record, context), where)
    return verification


def _alone(
    where: str, record: Record, folder: Path, known: Known, *, same_worker: bool
) -> Iterator[Outcome]:
    """The findings about a record, without its plan."""
    described = known.get((record.workload.model, record.workload.dataset))
    samples = described.train_samples if described else None
    yield from records.check_figures(where, record, known)
    yield from events.check(where, record, folder, samples, same_worker=same_worker)
    if record.log and not (folder / record.log).is_file():
        yield finding(where, "log", record.log, "no such file")


def _run_ids(folder: Path, found: Sequence[Record]) -> Iterator[Note]:
    """The names that the records have for their run, where the folder has another one."""
    others = Counter(each.run_id for each in found if each.run_id != folder.name)
    for run_id, count in others.items():
        text = f"run_id is {run_id} in {count} of {len(found)} records"
        yield Note(where=folder.name, text=f"{text}, which is not the name of the folder")


def _in_plan(where: str, record: Record, context: Context) -> Iterator[Outcome]:
    """Compare a record with the plan, the peak and the certificates."""
    yield from records.check(where, record, context)
    yield from records.check_plausible(where, record, context)
    yield from proofs.check_record(where, record, context)
    yield from machine.check_record(where, record, context)


def _certificates(folder: Path, outcomes: list[Outcome]) -> dict[str, Certificate]:
    """The certificates in a run's folder by their key; unreadable ones are findings."""
    found = {}
    place = folder / FOLDER
    if not place.is_dir():
        outcomes.append(age.missing(folder, FOLDER, "the certificates"))
    for path in sorted(place.glob("*.json")):
        where = path.relative_to(folder).as_posix()
        try:
            certificate = certificates.read(path)
        except ResultsError as error:
            outcomes.append(finding(where, "content", "a certificate", error))
            continue
        found[certificate.key] = certificate
        outcomes += _safely(proofs.check_certificate(where, certificate), where)
    return found


def _records(folder: Path, outcomes: list[Outcome]) -> dict[str, Record]:
    """The records of this schema version by the name of their file."""
    found = {}
    for path in store.record_files(folder):
        try:
            record = store.read_record(path)
            values = json_file.loads(path.read_bytes())
        except (ResultsError, ValueError) as error:
            outcomes.append(finding(path.name, "content", "a record", error))
            continue
        version = values["schema_version"]
        if version == SCHEMA_VERSION:
            found[path.name] = record
        elif version < age.SCHEMA_VERSION and age.is_recent(folder):
            expected = f"at least {age.SCHEMA_VERSION}, by its worker"
            outcomes.append(finding(path.name, "schema_version", expected, version))
        else:
            text = f"schema version {version}, so only its checksum is checked"
            outcomes.append(Note(where=path.name, text=text))
    return found


def _planned(folder: Path, outcomes: list[Outcome]) -> Planned | None:
    """The plan of a run; None where it cannot be read."""
    try:
        return planfile.parsed(folder)
    except OtherVersion as error:
        if age.is_recent(folder):
            expected = f"version {planfile.VERSION}, by the run's worker"
            outcomes.append(finding(planfile.NAME, "version", expected, error))
        else:
            outcomes.append(Note(where=planfile.NAME, text=f"not checked: {error}"))
    except ResultsError as error:
        outcomes.append(finding(planfile.NAME, "content", "a plan", error))
    return None


def _missing(folder: Path, found: list[Record]) -> Iterator[Outcome]:
    """Planned runs without a record: a finding where the run was finished."""
    finished = (folder / checksums.NAME).exists()
    for name in planfile.missing(folder, found):
        where = f"{name}.json"
        if finished:
            yield finding(where, "record", "one, the plan needs it", "none")
        else:
            yield Note(where=where, text="no record yet: the run is not finished")
