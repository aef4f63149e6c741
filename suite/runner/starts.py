"""starts/<number>.json in a run's folder: when and where it started, and each time it was resumed.

A start is written before anything is run. It holds the digest of the plan, so a signature of it
binds the plan to that time.
"""

from __future__ import annotations

import datetime
import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

import suite
from suite.errors import ResultsError
from suite.manifests import json_file
from suite.manifests.strict import Strict, first_problem
from suite.paths import sha256, write_atomically
from suite.results import store
from suite.worker import host

FOLDER = "starts"


class Start(Strict):
    """One start of a run, or of its resume."""

    version: int = 1
    plan_sha256: str
    time: str  # UTC, by the clock of the machine that started it
    monotonic_ns: int  # on that machine
    boot_id: str | None  # of that machine
    dlsuite: str
    python: str
    host: dict[str, Any]  # the machine on which the workers run
    done: int  # number of records that were there


def write(folder: Path, machine: Mapping[str, Any], *, done: int) -> Path:
    """Write the next start of the run in `folder`; raise OSError where that fails."""
    place = folder / FOLDER
    place.mkdir(exist_ok=True)
    plan = folder / store.PLAN
    start = Start(
        plan_sha256=sha256(plan) if plan.exists() else "",
        time=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        monotonic_ns=time.monotonic_ns(),
        boot_id=host.boot_id(),
        dlsuite=suite.__version__,
        python=platform.python_version(),
        host=dict(machine),
        done=done,
    )
    path = place / f"{len(files(folder)) + 1}.json"
    write_atomically(path, start.model_dump_json(indent=1) + "\n")
    return path


def files(folder: Path) -> list[Path]:
    """The starts of a run in their order."""
    found = [path for path in (folder / FOLDER).glob("*.json") if path.stem.isdigit()]
    return sorted(found, key=lambda path: int(path.stem))


def read(path: Path) -> Start:
    """The start in a file; ResultsError where it is not one."""
    try:
        return Start.model_validate(json_file.loads(path.read_bytes()))
    except (OSError, ValueError) as error:
        reason = first_problem(error) if isinstance(error, ValidationError) else str(error)
        raise ResultsError(f"{path}: not a start: {reason}", hint="ask for the run again") from None
