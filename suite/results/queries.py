"""Answers a query in SQL over the index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from suite.errors import UsageError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

HINT = "dlsuite query, without SQL, shows the tables and columns"
TEXT = ("VARCHAR", "TIMESTAMP", "BOOLEAN")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The rows of an answer, and the names of its columns with text."""

    rows: list[dict[str, Any]]
    text_columns: list[str]


def answer(connection: DuckDBPyConnection, sql: str) -> Answer:
    """The answer to one SELECT; UsageError, in one line, where it is not one or has a mistake."""
    import duckdb

    try:
        statements = connection.extract_statements(sql)
        if len(statements) != 1:
            raise UsageError(f"a query is one statement, found {len(statements)}", hint=HINT)
        if statements[0].type != duckdb.StatementType.SELECT:
            kind = str(statements[0].type).removeprefix("StatementType.")
            raise UsageError(f"a query is a SELECT, found {kind}", hint=HINT)
        cursor = connection.execute(statements[0])
        columns = [(name, str(type)) for name, type, *_ in cursor.description or ()]
        values = cursor.fetchall()
    except duckdb.Error as error:
        raise UsageError(f"SQL: {_one_line(str(error))}", hint=HINT) from None
    names = _unique([name for name, _ in columns])
    return Answer(
        rows=[dict(zip(names, row, strict=True)) for row in values],
        text_columns=[name for name, (_, type) in zip(names, columns, strict=True) if type in TEXT],
    )


def _one_line(message: str) -> str:
    """An error of DuckDB without the excerpt of the query below it."""
    return " ".join(message.split("\nLINE ")[0].split())


def _unique(names: list[str]) -> list[str]:
    """The names, with a number where one is there twice."""
    found: list[str] = []
    for name in names:
        number = sum(each == name or each.startswith(f"{name}_") for each in found)
        found.append(f"{name}_{number}" if name in found else name)
    return found
