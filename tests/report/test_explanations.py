"""Every heading of the tables has an explanation, and a page that exists."""

from collections.abc import Iterable

import pytest

from suite.cli.explain import explain
from suite.errors import UsageError
from suite.paths import REPOSITORY
from suite.report import best_table, comparison_table, rates_table
from suite.report.comparison import compare
from suite.report.explanations import EXPLANATIONS, explanation
from suite.report.summary import summarise
from tests.report.test_reports import some_records


def headings(rows: Iterable[dict[str, str]]) -> set[str]:
    return {name for row in rows for name in row}


def test_every_heading_of_the_reports_is_explained() -> None:
    summaries = summarise(some_records())
    pairs = compare(summaries, summaries).pairs
    shown = headings(
        [
            *(rates_table._cells(each, None, None) for each in summaries),
            *map(best_table._cells, summaries),
            *map(comparison_table.cells_of, pairs),
        ]
    )
    assert shown <= EXPLANATIONS.keys()


def test_each_explanation_names_a_page_that_exists() -> None:
    for each in EXPLANATIONS.values():
        assert (REPOSITORY / each.page).is_file() and each.text.endswith(".")


def test_an_unknown_column_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="unknown column 'sample/s'; nearest: 'samples/s'"):
        explanation("sample/s")
    assert explanation("mfu") is EXPLANATIONS["MFU"]


def test_the_command_prints_one_or_all(capsys: pytest.CaptureFixture[str]) -> None:
    explain("same work")
    assert "float64 reference" in capsys.readouterr().out
    explain()
    assert len(capsys.readouterr().out.splitlines()) == len(EXPLANATIONS)
