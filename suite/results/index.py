"""An index of all records in a folder of runs, as a DuckDB file in the cache.

The records are the truth: the index may be removed at any time, and is made again. Only the folders
of runs that are new or have changed are read. An update writes a copy of the file that replaces it,
so that other processes can read it meanwhile.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from suite.errors import ResultsError
from suite.paths import digest, home
from suite.results import store
from suite.results.columns import TABLES, of_record, of_trial
from suite.results.record import SCHEMA_VERSION, Record

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

VERSION = 2  # changes when a value of a column is computed in another way
STAMP = re.compile(r"\d{8}-\d{6}")
# A query sees the index and nothing else: no other file, no network, no variable of this process.
CLOSED: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "lock_configuration": "true",
}


@contextmanager
def opened(results: Path) -> Iterator[DuckDBPyConnection]:
    """A read-only connection to the index of the runs in `results`, which is brought up to date.

    Raise ResultsError where there are no records.
    """
    import duckdb

    found = fingerprints(results)
    if not found:
        raise ResultsError(f"{results} has no records", hint="dlsuite run quick")
    path = path_of(results)
    if (known := _known(path)) != found:
        _update(path, results, found, known or {})
    connection = duckdb.connect(str(path), read_only=True, config=CLOSED)
    try:
        yield connection
    finally:
        connection.close()


def path_of(results: Path) -> Path:
    """The file of the index of a folder of runs."""
    return home() / "index" / f"{digest([str(results.resolve())])[:16]}.duckdb"


def problems(connection: DuckDBPyConnection) -> list[str]:
    """Why the records of some folders are not in the index, a line for each."""
    rows = connection.execute("select problem from folders where problem is not null order by 1")
    return [problem for (problem,) in rows.fetchall()]


def fingerprints(results: Path) -> dict[str, str]:
    """The folders of runs in `results`, with a digest of their records' names, times and sizes.

    Links, such as `latest`, and hidden folders are not among them.
    """
    found = {}
    for folder in _scan(results):
        if folder.name.startswith(".") or not folder.is_dir(follow_symlinks=False):
            continue
        files = [
            f"{file.name} {(status := file.stat()).st_mtime_ns} {status.st_size}"
            for file in _scan(Path(folder.path))
            if fnmatch(file.name, store.RECORDS)
        ]
        if files:
            found[folder.name] = digest(sorted(files))
    return dict(sorted(found.items()))


def _scan(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _version() -> str:
    """A digest of everything that the content of an index depends on, beside the records."""
    columns = [f"{name} {each}" for name, table in TABLES.items() for each in _definitions(table)]
    return digest([str(VERSION), str(SCHEMA_VERSION), *columns])


def _definitions(table: Iterable[Any]) -> list[str]:
    return [f"{column.name} {column.type}" for column in table]


def _known(path: Path) -> dict[str, str] | None:
    """The fingerprints in an index; None where it is missing, damaged or of another version."""
    import duckdb

    if not path.exists():
        return None
    try:
        with duckdb.connect(str(path), read_only=True, config=CLOSED) as connection:
            version = connection.execute("select version from meta").fetchall()
            if version != [(_version(),)]:
                return None
            return dict(connection.execute("select name, fingerprint from folders").fetchall())
    except duckdb.Error:
        return None


def _update(path: Path, results: Path, found: Mapping[str, str], known: Mapping[str, str]) -> None:
    """Write the index of the folders `found`, with what it has of those that are in `known`."""
    import duckdb

    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".update-", dir=path.parent) as folder:
        part = Path(folder) / path.name
        if known:
            shutil.copyfile(path, part)
        with duckdb.connect(str(part)) as connection:
            if not known:
                _create(connection)
            changed = [name for name in found if known.get(name) != found[name]]
            outdated = [*(name for name in known if name not in found), *changed]
            for table, column in (("folders", "name"), *((name, "run_id") for name in TABLES)):
                statement = f"delete from {table} where list_contains(?::VARCHAR[], {column})"
                connection.execute(statement, [outdated])
            _insert(connection, results, {name: found[name] for name in changed}, Path(folder))
            connection.execute("checkpoint")
        part.replace(path)


def _create(connection: DuckDBPyConnection) -> None:
    for name, table in TABLES.items():
        connection.execute(f"create table {name} ({', '.join(_definitions(table))})")
    connection.execute("create table folders (name VARCHAR, fingerprint VARCHAR, problem VARCHAR)")
    connection.execute("create table meta as select ? as version", [_version()])


def _insert(
    connection: DuckDBPyConnection, results: Path, changed: Mapping[str, str], folder: Path
) -> None:
    """Read the records of the changed folders, and insert their rows by way of files of JSON.

    It is a hundred times as fast as statements with values.
    """
    files = {name: folder / f"{name}.jsonl" for name in TABLES}
    with files["records"].open("wb") as records, files["trials"].open("wb") as trials:
        for name, fingerprint in changed.items():
            problem, rows_of = _rows(results / name)
            for stream, rows in ((records, rows_of["records"]), (trials, rows_of["trials"])):
                stream.writelines(to_json(row) + b"\n" for row in rows)
            values = [name, fingerprint, problem]
            connection.execute("insert into folders values (?, ?, ?)", values)
    for name, file in files.items():
        columns = {column.name: column.type for column in TABLES[name]}
        connection.execute(
            f"insert into {name} select * from read_json(?, format = 'newline_delimited',"
            f" columns = {columns!r})",
            [str(file)],
        )


def _rows(folder: Path) -> tuple[str | None, dict[str, list[dict[str, Any]]]]:
    """The rows of a run's folder for each table; none, and the reason, where one is unreadable."""
    try:
        records = store.read_all(folder)
    except ResultsError as error:
        return str(error), {"records": [], "trials": []}
    of_folder = {"run_id": folder.name, "date": started_at(folder).isoformat()}
    by_trial: dict[str, list[Record]] = {}
    for record in records:
        by_trial.setdefault(record.trial_id, []).append(record)
    return None, {
        "records": [of_folder | of_record(record) for record in records],
        "trials": [of_folder | of_trial(runs) for runs in by_trial.values()],
    }


def started_at(folder: Path) -> datetime:
    """When a run started, in local time: by the folder's name, else by its oldest record."""
    if found := STAMP.match(folder.name):
        try:
            return datetime.strptime(found[0], "%Y%m%d-%H%M%S")
        except ValueError:
            pass
    oldest_s = min(file.stat().st_mtime for file in store.record_files(folder))
    return datetime.fromtimestamp(oldest_s).replace(microsecond=0)
