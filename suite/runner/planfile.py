"""plan.yaml in a run's folder: the plan, and the worker and locks that a resume requires."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import TypeAdapter, ValidationError

from suite.engines.base import Engine
from suite.engines.choice import EngineOptions
from suite.errors import ResultsError
from suite.paths import write_atomically
from suite.protocol.plan import Plan
from suite.results.record import Record
from suite.runner import stopping

NAME = "plan.yaml"
VERSION = 6  # 6: new names of the fields; 5: verify_runs


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A plan that was started."""

    version: int = VERSION
    session_id: str  # of the containers that belong to this run
    engine_options: EngineOptions  # with the engine that was chosen
    worker_sha256: str
    locks: dict[str, str]  # framework -> digest of the lock from which it was prepared
    plan: Plan

    def must_match(self, engine: Engine, locks: dict[str, str], folder: Path) -> None:
        """Raise ResultsError where the worker or a lock has changed since the run started."""
        changed = [name for name in locks if self.locks.get(name, locks[name]) != locks[name]]
        if engine.worker_sha256 != self.worker_sha256:
            changed.append("the worker")
        if changed:
            raise ResultsError(
                f"{folder} cannot be resumed: {', '.join(changed)} changed since it started",
                hint="start again with dlsuite run; the finished records are kept",
            )


class OtherVersion(ResultsError):
    """The plan was written by another version of dlsuite."""


_adapter = TypeAdapter(Planned)


def write(folder: Path, planned: Planned) -> None:
    """Write plan.yaml; raise OSError where that fails."""
    text = yaml.safe_dump(_adapter.dump_python(planned, mode="json"), sort_keys=False)
    write_atomically(folder / NAME, text)


def read(folder: Path) -> Planned:
    """Raise ResultsError where there is none, OtherVersion where its version is another."""
    path = folder / NAME
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
        if isinstance(values, dict) and values.get("version") != VERSION:
            raise OtherVersion(
                f"{path}: plan of version {values.get('version')}, this is {VERSION}",
                hint="resume it with the dlsuite version that started it",
            )
        return _adapter.validate_python(values)
    except FileNotFoundError:
        raise ResultsError(
            f"{folder} has no plan to resume", hint="dlsuite report shows its records, if any"
        ) from None
    except (OSError, yaml.YAMLError, ValidationError) as error:
        first = str(error).splitlines()[0]
        raise ResultsError(
            f"{path}: not a plan: {first}", hint="start again with dlsuite run"
        ) from None


def missing(folder: Path, done: list[Record]) -> list[str]:
    """The names of planned runs without a record; an empty list without a plan of this version."""
    if not (folder / NAME).exists():
        return []
    try:
        plan = read(folder).plan
    except OtherVersion:
        return []
    return [run.name for group in plan.groups for run in stopping.needed(plan, group, done)]
