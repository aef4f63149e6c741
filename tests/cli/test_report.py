"""`dlsuite report`: its forms, its page and its figures."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from suite.cli import report as command
from suite.cli import run as run_command
from suite.cli.options import By, ReportFormat
from suite.errors import ResultsError, RunsFailed, UsageError
from suite.results import store
from tests.report.made_run import made_run
from tests.report.test_paper import paper_run

DLSUITE = Path(sys.executable).with_name("dlsuite")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_run(tmp_path_factory.mktemp("run"))


def test_markdown_has_one_table_with_the_rows_of_all_workloads(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command.report(run, format=ReportFormat.markdown)
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("| work | framework | variant | track |") for line in lines) == 1
    rows = [line for line in lines if line.startswith("| lenet on mnist")]
    assert len({line.split(" | ")[0] for line in rows}) == 3
    assert sum(" | TensorFlow 1.2.3 | graph | equal | 6," in line for line in rows) == 1
    assert sum(line.endswith(": keras:tensorflow: the worker was killed") for line in lines) == 1
    assert lines[0] == (
        "**Suite quick**, 2026-11-24, A made-up processor, 2 cores, engine venv, dlsuite 0.3.0"
    )
    assert "### best proven row of each framework, for each model and arithmetic" in lines
    (warnings,) = (line for line in lines if line.startswith("Warnings: "))
    assert "disturbed blocks are counted: mxnet:hybrid (1 of 32)" in warnings


def test_csv_is_printed(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command.report(run, format=ReportFormat.csv)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("run_id,suite,trial_id,framework,") and len(lines) == 1 + 33


def test_parquet_goes_to_a_file_and_not_to_a_terminal(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reply = subprocess.run(
        [DLSUITE, "report", str(run), "--format", "parquet"], capture_output=True, check=True
    )
    assert reply.stdout.startswith(b"PAR1") and reply.stdout.endswith(b"PAR1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    with pytest.raises(UsageError, match="not for a terminal"):
        command.report(run, format=ReportFormat.parquet)


def test_json_has_the_trials(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command.report(run, format=ReportFormat.json)
    assert len(json.loads(capsys.readouterr().out)["trials"]) == 9


def test_the_page_and_the_figures_are_written_and_named(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, folder = tmp_path / "page.html", tmp_path / "figures"
    command.report(run, html=page, draw=folder, against=run)
    shown = capsys.readouterr().out.splitlines()
    assert shown == [str(page), f"24 files in {folder}"]
    assert page.read_text().startswith("<!DOCTYPE html>") and f"With {run.name}" in page.read_text()
    assert len(list(folder.iterdir())) == 24


def test_options_of_the_page_need_a_page(run: Path) -> None:
    with pytest.raises(UsageError, match="--against needs --html"):
        command.report(run, against=run)
    with pytest.raises(UsageError, match="--interactive needs --html"):
        command.report(run, interactive=True)


def test_a_place_that_cannot_be_written_is_an_error(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"none/page.html cannot be written"):
        command.report(run, html=tmp_path / "none" / "page.html")


def test_a_finished_run_ends_with_the_name_of_its_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = store.RunFolder(made_run(tmp_path))
    with pytest.raises(RunsFailed):
        run_command.conclude(store.read(folder.path), folder)
    page = folder.path / "report.html"
    assert capsys.readouterr().out.splitlines()[-1] == f"report: {page}"
    assert "TensorFlow graph is fastest" in page.read_text()


def test_runs_are_shown_by_machine(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    markdown = ReportFormat.markdown
    command.report(run, [run], by=By.machine, price=["1/h", "2.5/h"], format=markdown)
    shown = capsys.readouterr().out
    assert shown.count("| tensorflow:graph |") == 2 and "| 2.5 |" in shown
    command.report(run, by=By.machine)
    assert "One machine is one sample of its type." in capsys.readouterr().out
    with pytest.raises(UsageError, match="3 prices for 2 runs"):
        command.report(run, [run], by=By.machine, price=["1", "2", "3"])
    with pytest.raises(UsageError, match="several runs need --by machine"):
        command.report(run, [run])
    with pytest.raises(UsageError, match="--price needs --by machine"):
        command.report(run, price=["1/h"])
    with pytest.raises(UsageError, match="--by has the forms table and markdown"):
        command.report(run, by=By.machine, format=ReportFormat.json)


@pytest.mark.parametrize(
    ("name", "beginning"), [("a.svg", b"<svg"), ("a.PNG", b"\x89PNG"), ("a.pdf", b"%PDF")]
)
def test_one_picture_of_a_kind_of_figures_is_written(
    run: Path, tmp_path: Path, name: str, beginning: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    command.report(run, kind="rates", out=tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(beginning)
    assert capsys.readouterr().out == f"{tmp_path / name}\n"


def test_a_picture_says_what_it_shows_and_where_it_was_measured(run: Path, tmp_path: Path) -> None:
    command.report(run, kind="rates", out=tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    for expected in ("Suite quick", "2026-11-24, A made-up processor, 2 cores", "dlsuite 0.3.0"):
        assert expected in text
    assert text.count(">lenet on mnist, train, batch 64") == 3  # workloads
    assert "JAX/Flax 1.2.3, MXNet 1.2.3, PyTorch 1.2.3, TensorFlow 1.2.3" in text


def test_a_picture_that_cannot_be_made_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--figure and --out need each other"):
        command.report(run, kind="rates")
    with pytest.raises(UsageError, match=r"a\.gif: a picture is a file of svg, png, pdf"):
        command.report(run, kind="rates", out=tmp_path / "a.gif")
    with pytest.raises(UsageError, match="unknown figure 'rate'"):
        command.report(run, kind="rate", out=tmp_path / "a.svg")
    with pytest.raises(ResultsError, match="has no figure 'latency'") as caught:
        command.report(run, kind="latency", out=tmp_path / "a.svg")
    assert (
        caught.value.hint == "it has rates, curves, blocks, telemetry, ratios, speed-up and parity"
    )
    with pytest.raises(ResultsError, match="cannot be written"):
        command.report(run, kind="rates", out=tmp_path / "missing" / "a.svg")
    assert list(tmp_path.iterdir()) == []


def test_a_figure_that_cannot_be_drawn_does_not_hide_the_outcome_of_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """vl-convert raises ValueError for a specification that is not valid."""
    module = importlib.import_module("suite.report.figures.speed_up")  # a function has its name too
    monkeypatch.setattr(module, "_spec", lambda points: {"mark": "no mark of this name"})
    folder = store.RunFolder(made_run(tmp_path))
    with pytest.raises(RunsFailed):
        run_command.conclude(store.read(folder.path), folder)
    assert "report.html is not written, a figure cannot be drawn: " in capsys.readouterr().err
    assert not (folder.path / "report.html").exists()


def test_a_run_beside_its_publication_has_two_forms(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = paper_run(tmp_path)
    command.report(folder, as_paper=True)
    assert "Findings" in capsys.readouterr().out
    command.report(folder, as_paper=True, format=ReportFormat.markdown)
    assert "### Findings" in capsys.readouterr().out
    with pytest.raises(UsageError, match="--paper has the forms table and markdown"):
        command.report(folder, as_paper=True, format=ReportFormat.json)


def test_a_run_of_another_suite_has_no_publication(run: Path) -> None:
    with pytest.raises(UsageError, match="repeats no published comparison") as refused:
        command.report(run, as_paper=True)
    assert refused.value.hint == "dlsuite run papers/kent-2023 --scale 0.01"
