"""Every heading of the tables has an explanation, and a page that exists."""

import re
from collections.abc import Callable, Iterable
from html import unescape
from pathlib import Path
from typing import get_args

import pytest

from suite.cli.explain import explain
from suite.errors import UsageError
from suite.manifests.workloads import Scenario
from suite.paths import REPOSITORY
from suite.protocol.plan import Plan
from suite.report import (
    best_table,
    comparison_table,
    convergence,
    convergence_table,
    parity_table,
    run_data,
    scaling,
    scaling_table,
)
from suite.report.cells import cells_of
from suite.report.comparison import compare
from suite.report.explanations import EXPLANATIONS, explanation
from suite.report.html import page
from suite.report.numbers import MILLISECONDS
from suite.report.summary import summarise
from tests.report.made_inference import inferred, made_inference
from tests.report.made_run import made_run
from tests.report.test_convergence import ALL
from tests.report.test_reports import some_records
from tests.report.test_scaling import summaries as on_devices
from tests.results.test_roofline import PEAK


def headings(rows: Iterable[dict[str, str]]) -> set[str]:
    return {name for row in rows for name in row}


def test_every_heading_of_the_reports_is_explained(quick: Callable[..., Plan]) -> None:
    summaries = summarise(some_records())
    made = {name: summarise([inferred(name)]) for name in get_args(Scenario)}
    pairs = compare(summaries, summaries).pairs
    shown = headings(
        [
            *cells_of(summaries, PEAK),
            *(row for group in made.values() for row in cells_of(group, PEAK)),
            *map(best_table._cells, summaries),
            *(best_table._inference_cells(each, MILLISECONDS) for each in made["offline"]),
            *map(comparison_table.cells_of, pairs),
            *map(convergence_table.cells_of, convergence.rows(ALL)),
            parity_table._cells(quick("jax").trials[0], None),
            *scaling_table.cells_of(scaling.rows(on_devices())),
            *scaling_table._growth(scaling.rows(on_devices())),
        ]
    )
    assert shown <= EXPLANATIONS.keys()


def test_every_heading_of_the_page_is_explained(tmp_path: Path) -> None:
    found = set()
    for make in (made_run, made_inference):
        run = run_data.read(make(tmp_path / make.__name__))
        found |= set(re.findall(r'<th scope="col">([^<]+)</th>', page.html(run)))
    assert {unescape(each).strip() for each in found} <= EXPLANATIONS.keys()


def test_an_unknown_column_has_five_near_names() -> None:
    with pytest.raises(UsageError, match=r"unknown column 'zzzz'; nearest: ([^,]+, ){4}"):
        explanation("zzzz")


def test_each_explanation_names_a_page_that_exists() -> None:
    for each in EXPLANATIONS.values():
        assert (REPOSITORY / each.page).is_file() and each.text.endswith(".")


def test_an_unknown_column_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="unknown column 'sample/s'; nearest: samples/s, "):
        explanation("sample/s")
    assert explanation("mfu") is EXPLANATIONS["MFU"]


def test_the_command_prints_one_or_all(capsys: pytest.CaptureFixture[str]) -> None:
    explain("same work")
    assert "float64 reference" in capsys.readouterr().out
    explain()
    assert len(capsys.readouterr().out.splitlines()) == len(EXPLANATIONS)
