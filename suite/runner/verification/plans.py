"""Checks a run's plan: its expansion, and the worker and the locks that it names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from suite.paths import LOCKS, WORKER, sha256, tree_sha256
from suite.protocol import expansion
from suite.protocol.plan import Plan
from suite.results import roofline, store
from suite.results.roofline import peak_of
from suite.runner import sources
from suite.runner.verification import age
from suite.runner.verification.findings import Note, Outcome, compared, finding

if TYPE_CHECKING:
    from suite.runner.planfile import Planned


def check(folder: Path, planned: Planned) -> Iterator[Outcome]:
    """What does not fit the plan of the run in `folder`."""
    yield from _expansion(planned.plan)
    yield from _worker(folder, planned)
    runs = [f"{run.name}." for run in planned.plan.runs]
    for path in sorted((folder / "logs").glob("*")):
        if not any(path.name.startswith(run) for run in runs):
            yield Note(where=f"logs/{path.name}", text="of no run: nothing confirms what it says")
    for framework, digest in planned.locks.items():
        yield from _lock(folder, framework, digest)


def _expansion(plan: Plan) -> Iterator[Outcome]:
    """Compare the runs with those that the trials expand to, in their order.

    With trials left out, the order of all of them is unknown, and only the set is compared.
    """
    ids = [trial.trial_id for trial in plan.trials]
    if len(set(ids)) < len(ids):
        yield finding(store.PLAN, "trials", "different ones", "one of them twice")
        return
    runs = expansion.runs_of(plan.trials, plan.repeats.at_most, staged=plan.staged)
    expected = [run.name for run in runs]
    found = [run.name for run in plan.runs]
    if plan.notes or sorted(expected) != sorted(found):
        expected, found = sorted(expected), sorted(found)
    yield from compared(store.PLAN, "runs", expected, found)


def _worker(folder: Path, planned: Planned) -> Iterator[Outcome]:
    """Compare the worker's source in the folder, and that of this version, with the plan."""
    where, expected = sources.WORKER_FOLDER, planned.worker_sha256
    if not (folder / where).is_dir():
        yield age.missing(folder, where, "its source")
    elif (actual := tree_sha256(folder / where)) != expected:
        yield finding(where, "SHA-256 of the source", expected, actual)
    if tree_sha256(WORKER) != expected:
        yield Note(where=where, text="not the worker of this version of dlsuite")


def _lock(folder: Path, framework: str, expected: str) -> Iterator[Outcome]:
    """Compare a lock in the folder, and those of this version, with the plan."""
    path = sources.lock_path(folder, framework)
    where = path.relative_to(folder).as_posix()
    if not path.is_file():
        yield age.missing(folder, where, "the lock of the plan")
    elif (actual := sha256(path)) != expected:
        yield finding(where, "SHA-256", expected, actual)
    if expected not in {sha256(lock) for lock in (LOCKS / framework).glob("c*.txt")}:
        yield Note(where=where, text="not a lock of this version of dlsuite")


def check_peak(folder: Path) -> Iterator[Outcome]:
    """Compare the hardware peak with the largest rate of each operation in it."""
    if not (folder / roofline.NAME).exists():
        return
    peak = roofline.read(folder)
    if peak is None:
        yield finding(roofline.NAME, "content", "a hardware peak", "none that can be read")
        return
    best = peak_of(peak.device, peak.by_framework).best
    yield from compared(
        roofline.NAME,
        "best",
        {name: each.work_per_s for name, each in best.items()},
        {name: each.work_per_s for name, each in peak.best.items()},
    )
