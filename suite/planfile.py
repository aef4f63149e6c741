"""plan.yaml in a run's folder: what was planned and in which state of the suite, for a resume."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import TypeAdapter, ValidationError

from suite import repeats
from suite.engines.choice import Wanted
from suite.errors import ResultsError
from suite.paths import write_atomically
from suite.plan import Plan
from suite.records import Record

NAME = "plan.yaml"
VERSION = 5  # 5: verify_runs
READABLE = (4, 5)


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A plan as it was begun; a resume must find the same locks and worker."""

    version: int = VERSION
    owner: str  # whose containers are this run's
    wanted: Wanted  # with the engine that was chosen
    worker_sha256: str
    locks: dict[str, str]  # framework -> digest of the lock it was prepared from
    plan: Plan


_adapter = TypeAdapter(Planned)


def write(folder: Path, planned: Planned) -> None:
    """Raise OSError where it cannot be written."""
    text = yaml.safe_dump(_adapter.dump_python(planned, mode="json"), sort_keys=False)
    write_atomically(folder / NAME, text)


def read(folder: Path) -> Planned:
    """Raise ResultsError where there is none, or one of another version."""
    path = folder / NAME
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
        if isinstance(values, dict) and values.get("version") not in READABLE:
            raise ResultsError(
                f"{path}: plan of version {values.get('version')}, this is {VERSION}",
                hint="resume it with the dlsuite that began it",
            )
        return _adapter.validate_python(values)
    except FileNotFoundError:
        raise ResultsError(
            f"{folder} has no plan to resume", hint="dlsuite report shows its records, if any"
        ) from None
    except (OSError, yaml.YAMLError, ValidationError) as error:
        first = str(error).splitlines()[0]
        raise ResultsError(f"{path}: not a plan: {first}", hint="dlsuite run begins anew") from None


def missing(folder: Path, done: list[Record]) -> list[str]:
    """The names of the planned runs still to be done; none where the folder has no plan."""
    if not (folder / NAME).exists():
        return []
    plan = read(folder).plan
    return [run.name for group in plan.groups for run in repeats.wanted(plan, group, done)]
