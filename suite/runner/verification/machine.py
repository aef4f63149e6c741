"""Where a run was made: the machine, the engine and the framework of each record."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

from suite.errors import ResultsError
from suite.manifests import catalog
from suite.manifests.files import names
from suite.paths import sha256
from suite.protocol.plan import Plan
from suite.results import store
from suite.results.record import Record
from suite.runner import planfile, sources, starts
from suite.runner.planfile import Planned
from suite.runner.starts import Start
from suite.runner.verification import age
from suite.runner.verification.context import Context
from suite.runner.verification.findings import Note, Outcome, compared, finding

# Parts of the machine that do not change while a run is made.
STABLE = ("os", "kernel", "boot_id", "machine", "cpu", "cpus", "logical_cpus", "governor")
OF_HOST = (*STABLE, "memory_bytes")
OF_SUITE = ("dlsuite", "python")
PACKAGES = {"paddle": "paddlepaddle", "torch": "torch"}  # import -> name in a lock, where unlike
STAMP = re.compile(r"\d{8}-\d{6}")  # in the name of a run
A_DAY = timedelta(days=1)
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", re.MULTILINE)


def check_record(where: str, record: Record, context: Context) -> Iterator[Outcome]:
    """What does not fit the plan's machine and engine, or the lock."""
    options = context.planned.engine_options
    own = {text.partition("=")[0] for text in options.pythons}
    ran = record.status == "ok"
    recorded = record.environment.get("own_python")
    if recorded is not None:
        yield from compared(where, "environment.own_python", record.framework in own, recorded)
    if ran and record.engine == "docker" and record.image_id is None:
        yield finding(where, "image_id", "that of a container, the engine is docker", None)
    if record.engine == "venv" and record.image_id is not None:
        yield finding(where, "image_id", "None, the engine is venv", record.image_id)
    if ran and record.engine == "docker" and record.times.engine_s is None:
        yield finding(where, "times.engine_s", "the overhead of the containers", None)
    if record.engine == "venv" and record.times.engine_s is not None:
        yield finding(where, "times.engine_s", "None, the engine is venv", record.times.engine_s)
    if machine := context.planned.machine:
        yield from compared(
            where, "machine of the plan", machine, planfile.machine_of(record.environment)
        )
    if ran and record.framework not in own:
        yield from _version(where, record, context.folder)


def _version(where: str, record: Record, folder: Path) -> Iterator[Outcome]:
    """The versions that the worker reported must be those that the lock pins."""
    path = sources.lock_path(folder, record.framework)
    if not path.is_file() or record.framework not in names("framework"):
        return
    packages = catalog.framework(record.framework).packages
    if not packages or record.framework_version is None:
        return
    package = PACKAGES.get(packages[0], packages[0])
    text = path.read_text(encoding="utf-8", errors="replace")
    worker = record.environment.get("worker") or {}
    numpy = (worker.get("versions") or {}).get("numpy")
    reported = (
        ("framework_version", package, record.framework_version),
        ("environment.worker.versions.numpy", "numpy", numpy),
    )
    for what, name, version in reported:
        pinned = {pin for each, pin in PIN.findall(text) if each.lower() == name}
        if version and pinned and _public(version) not in set(map(_public, pinned)):
            expected = f"{name} {' or '.join(sorted(pinned))}, as the lock"
            yield finding(where, what, expected, version)


def _public(version: str) -> str:
    """A version without its local part, such as +cpu, a build's date, or a post-release.

    By PEP 440 a post-release has the same software: CNTK 2.7.post2 reports 2.7.
    """
    return version.split("+")[0].split("-")[0].split(".post")[0]


def read_starts(folder: Path, outcomes: list[Outcome]) -> list[Start]:
    """The starts of a run; those that do not fit its plan are findings."""
    found = []
    plan = folder / store.PLAN
    for path in starts.files(folder):
        where = path.relative_to(folder).as_posix()
        try:
            start = starts.read(path)
        except ResultsError as error:
            outcomes.append(finding(where, "content", "a start", error))
            continue
        found.append(start)
        if plan.is_file():
            outcomes += compared(where, "plan_sha256", sha256(plan), start.plan_sha256)
    for before, after in pairwise(found):
        same = after.boot_id is not None and after.boot_id == before.boot_id
        if after.time < before.time or (same and after.monotonic_ns <= before.monotonic_ns):
            where, expected = starts.FOLDER, f"one after that of {before.time}"
            outcomes.append(finding(where, "time of the next start", expected, after.time))
    outcomes += _date(folder, found)
    if not starts.files(folder):
        outcomes.append(age.missing(folder, starts.FOLDER, "the start of the run"))
    return found


def _date(folder: Path, begun: Sequence[Start]) -> Iterator[Outcome]:
    """A run is named by the local time of its start."""
    named = STAMP.match(folder.name)
    if not named or not begun:
        return
    where = f"{starts.FOLDER}/1.json"
    try:
        day = datetime.strptime(named[0], "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
        began = datetime.fromisoformat(begun[0].time)
    except ValueError as error:
        yield finding(where, "time", "a time and a zone", error)
        return
    if began.tzinfo is None or not abs(began - day) < A_DAY:
        yield finding(where, "time", f"about that of the run's name, {named[0]}", began)


def check_environments(
    records: Sequence[Record], plan: Plan, begun: Sequence[Start]
) -> Iterator[Outcome]:
    """Each record's machine must be that of a start; of an older run, that of all records.

    A resume may have been on a restarted or updated machine: then a part changes once, in order.
    """
    suites = [{name: getattr(each, name) for name in OF_SUITE} for each in begun]
    order = {run.name: number for number, run in enumerate(plan.runs)}
    first: dict[str, list[object]] = {}
    for record in sorted(records, key=lambda each: order.get(each.name, 0)):
        where = f"{record.name}.json"
        if begun:
            # An engine of containers reads a part of the facts again for each image.
            names = begun[-1].host if record.engine == "venv" else OF_HOST
            found = {name: record.environment.get(name) for name in names}
            hosts = [{name: each.host.get(name) for name in names} for each in begun]
            if found not in hosts:
                yield from compared(where, "environment", hosts[-1], found)
            of_suite = {name: record.environment.get(name) for name in OF_SUITE}
            if of_suite not in suites:
                yield from compared(where, "environment", suites[-1], of_suite)
            continue
        for name in (*OF_HOST, *OF_SUITE):
            seen, value = first.setdefault(name, []), record.environment.get(name)
            if seen and seen[-1] != value:
                if value in seen or (len(records) > 2 and record is _last(records, order)):
                    yield finding(where, f"environment.{name}", seen[-1], value)
                else:
                    text = f"environment.{name} is {value}, before it {seen[-1]}: resumed?"
                    yield Note(where=where, text=text)
            if not seen or seen[-1] != value:
                seen.append(value)


def _last(records: Sequence[Record], order: dict[str, int]) -> Record:
    return max(records, key=lambda each: order.get(each.name, 0))


def check_peak(folder: Path, planned: Planned, records: Sequence[Record]) -> Iterator[Outcome]:
    """A plan with a hardware peak has one, where a framework that measures it ran."""
    from suite.results import roofline

    if not planned.plan.peak:
        return
    if (peak := roofline.read(folder)) is not None:
        kinds = sorted({trial.devices.kind for trial in planned.plan.trials})
        if peak.device.partition(":")[0] not in kinds:
            yield finding(roofline.NAME, "device", " or ".join(kinds), peak.device)
        return
    place = folder / sources.WORKER_FOLDER / "frameworks"
    ran = {record.framework for record in records if record.status == "ok"}
    measuring = sorted(name for name in ran if (place / name / "peak.py").is_file())
    if measuring:
        expected = f"a hardware peak, measured with {', '.join(measuring)}"
        yield finding(roofline.NAME, "file", expected, "none")
