"""Rows of values as CSV; one row for each run of a folder, as CSV and as Parquet."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from suite.results.columns import OF_FOLDER, OF_RECORD, of_record
from suite.results.record import Record

# The columns of the table `records` that follow from a record alone.
COLUMNS = (OF_FOLDER[0], *OF_RECORD)


def as_csv(records: Iterable[Record]) -> str:
    """A row for each record, with a heading and a newline at the end."""
    rows = [{"run_id": record.run_id, **of_record(record)} for record in records]
    return csv_of(rows, [column.name for column in COLUMNS]) + "\n"


def csv_of(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """Rows with these columns as CSV with a heading, without a newline at the end.

    Unknown values are empty; booleans are `true` and `false`, as in SQL.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow([_text(row[name]) for name in names])
    return out.getvalue().rstrip("\n")


def _text(value: Any) -> Any:
    """A value as the CSV writer takes it. It does not quote a lone carriage return."""
    if isinstance(value, str):
        return value.replace("\r\n", "\n").replace("\r", "\n")
    return str(value).lower() if isinstance(value, bool) else value


def as_parquet(records: Iterable[Record]) -> bytes:
    """The rows as a Parquet file."""
    import duckdb

    types = {column.name: column.type for column in COLUMNS}
    with tempfile.TemporaryDirectory() as temporary, duckdb.connect() as database:
        source, target = Path(temporary) / "rows.csv", Path(temporary) / "rows.parquet"
        source.write_text(as_csv(records), encoding="utf-8")
        rows = database.read_csv(str(source), header=True, columns=types)
        rows.write_parquet(str(target))
        return target.read_bytes()
