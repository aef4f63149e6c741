"""A run's folder: results/<run-id>/, with one JSON file for each record, `<trial>-r<repeat>`."""

from __future__ import annotations

import gc
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from suite.errors import ResultsError, nearest
from suite.manifests import json_file
from suite.manifests.strict import first_problem
from suite.paths import write_atomically
from suite.results.record import SCHEMA_VERSION, Record
from suite.results.upgrade import UPGRADABLE, upgraded

PLAN = "plan.json"
LADDER = "ladder.json"  # in a run of the ladder: the lines of code of each framework's script
RECORDS = "*-r*.json"  # the files of the records in the folder of a run


class RunFolder:
    """results/<run-id>/: the records, and in logs/ the workers' logs and events."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run_id = path.name
        self.logs = path / "logs"

    def append(self, record: Record) -> None:
        """Write one record."""
        name = f"{record.name}.json"
        with self.writing(name):
            write_atomically(self.path / name, record.model_dump_json(indent=1) + "\n")

    @contextmanager
    def writing(self, name: str) -> Iterator[None]:
        """Write a file of this run in the block; then make `results/latest` point to its folder."""
        try:
            yield
        except OSError as error:
            raise ResultsError(
                f"{self.path / name} cannot be written: {error.strerror}",
                hint="free some space; the records written so far are complete",
            ) from None
        with suppress(OSError):  # a convenience: some file systems have no links
            self._link()

    def _link(self) -> None:
        """Make `results/latest` point to this folder; raise OSError where that fails."""
        latest = self.path.parent / "latest"
        if not latest.is_symlink() or latest.readlink() != Path(self.run_id):
            link = self.path.parent / f".latest-{os.getpid()}"
            link.unlink(missing_ok=True)
            link.symlink_to(self.run_id)
            try:
                link.replace(latest)
            except OSError:
                link.unlink()
                raise


@contextmanager
def run_folder(results: Path, suite: str) -> Iterator[RunFolder]:
    """A new run's folder in `results`, which is removed again if no file was written to it.

    Raise ResultsError where it cannot be written.
    """
    stamp = time.strftime("%Y%m%d-%H%M%S")
    try:
        results.mkdir(parents=True, exist_ok=True)
        folder = RunFolder(_fresh(results, f"{stamp}-{suite}"))
        folder.logs.mkdir()
    except OSError as error:
        raise ResultsError(
            f"{results} cannot be written: {error.strerror}",
            hint="choose another folder with --results",
        ) from None
    try:
        yield folder
    finally:
        if not any(path.is_file() for path in folder.path.iterdir()):
            shutil.rmtree(folder.path, ignore_errors=True)


def _fresh(results: Path, name: str) -> Path:
    """A new folder called `name`, with a number where that exists already."""
    for suffix in ("", *(f"-{number}" for number in range(2, 100))):
        path = results / f"{name}{suffix}"
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path
    raise FileExistsError(17, "too many runs in one second")


def read(path: Path) -> list[Record]:
    """All records of a run, by name; ResultsError where there are none."""
    found = read_all(path)
    if not found:
        raise ResultsError(f"{path} has no records", hint=_next_step(path))
    return found


def _next_step(path: Path) -> str:
    """What helps where a run has no records: to finish it, to name another one, or to run one."""
    if (path / PLAN).is_file():
        return f"dlsuite resume {path}"
    others = [each.name for each in path.parent.glob("*/") if each != path]
    if path.name == "latest" or not others:
        return "dlsuite run quick"
    return f"name a run; {nearest(path.name, others)}"


def read_all(path: Path) -> list[Record]:
    """All records of a run, by name; an empty list where there are none."""
    # Garbage collection would scan all records repeatedly and free nothing: with ten thousand
    # records it takes more than half of the time.
    gc.disable()
    try:
        return [read_record(file) for file in record_files(path)]
    finally:
        gc.freeze()
        gc.enable()


def record_files(path: Path) -> list[Path]:
    """The files of a run's records, by name."""
    return sorted(path.glob(RECORDS), key=str)


def read_record(file: Path) -> Record:
    """The record in a file; ResultsError where it is not one."""
    try:
        text = file.read_bytes()
        if version_of(text) == SCHEMA_VERSION:
            return Record.model_validate_json(text)
        return _older(file, json_file.loads(text))
    except OSError as error:
        raise _unreadable(file, str(error)) from None
    except ValidationError as error:
        raise _unreadable(file, first_problem(error)) from None
    except ValueError as error:
        raise _unreadable(file, str(error)) from None


def version_of(text: bytes) -> int | None:
    """The schema version of a record, which is its first value; None where it is elsewhere."""
    found = re.match(rb'\s*\{\s*"schema_version":\s*(\d+)', text)
    return int(found[1]) if found else None


def _older(file: Path, values: Any) -> Record:
    """A record of an older schema version, converted; ResultsError for an unknown version."""
    version = values.get("schema_version") if isinstance(values, dict) else None
    if version == SCHEMA_VERSION:
        return Record.model_validate(values)
    if version not in UPGRADABLE:
        raise ResultsError(
            f"{file}: record of schema version {version}, this is {SCHEMA_VERSION}",
            hint="read it with the dlsuite version that wrote it",
        )
    try:
        converted = upgraded(values)
    except (AttributeError, KeyError, TypeError) as error:
        raise _unreadable(file, f"damaged: {error}") from None
    return Record.model_validate(converted)


def _unreadable(file: Path, reason: str) -> ResultsError:
    return ResultsError(f"{file}: not a record: {reason}", hint="move it out of the run's folder")
