"""Queries over the index: answers, mistakes in one line, and no way out of the index."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from suite.errors import UsageError
from suite.results import index
from suite.results.queries import answer
from tests.results.test_index import write_run

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@pytest.fixture
def connection(tmp_path: Path, home: Path) -> "Iterator[DuckDBPyConnection]":
    write_run(tmp_path / "results", "20260101-120000-quick", 100.0, 102.0)
    with index.opened(tmp_path / "results") as opened:
        yield opened


def test_an_answer_has_its_columns_in_order(connection: "DuckDBPyConnection") -> None:
    found = answer(
        connection, "select framework, max(samples_per_s) as best from records group by 1"
    )
    assert found.rows == [{"framework": "pytorch", "best": 102.0}]
    assert found.text_columns == ["framework"]
    assert answer(connection, "select 1 a, 2 a, 3 a").rows == [{"a": 1, "a_1": 2, "a_2": 3}]
    assert answer(connection, "select 1 where false").rows == []


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("select nothing from records", 'Referenced column "nothing" not found'),
        ("select * from record", 'Did you mean "records"'),
        ("selec 1", 'syntax error at or near "selec"'),
        ("", "a query is one statement, found 0"),
        ("select 1; select 2", "a query is one statement, found 2"),
        ("drop table records", "a query is a SELECT, found DROP"),
        ("copy records to 'x.csv'", "a query is a SELECT, found COPY"),
        ("attach 'x.db'", "a query is a SELECT, found ATTACH"),
        ("set enable_external_access = true", "a query is a SELECT, found SET"),
        ("create temp table t as select 1", "a query is a SELECT, found CREATE"),
        ("select error('a\nb')", "a b"),
    ],
)
def test_a_mistake_is_one_line(connection: "DuckDBPyConnection", sql: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        answer(connection, sql)
    assert message in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "source",
    [
        "read_text('{file}')",
        "read_csv('{file}')",
        "glob('{folder}/*')",
        "'{file}'",
        "read_text('http://127.0.0.1:9/x')",
        "secret",  # a variable of this test
    ],
)
def test_a_query_reads_nothing_outside_the_index(
    connection: "DuckDBPyConnection", tmp_path: Path, source: str
) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("a,b\n1,2\n")
    secret = connection.sql("select 1 as a")
    assert secret is not None
    with pytest.raises(UsageError, match=r"disabled by configuration|does not exist"):
        answer(connection, f"select * from {source.format(file=file, folder=tmp_path)}")
