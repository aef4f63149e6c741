"""The commands about all runs and about sent runs, as a user calls them."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.main import get_command

from suite.cli import main
from suite.errors import DlsuiteError, NotVerified, ResultsError, Slower, UsageError
from tests.results.test_index import write_run

RUN = "20260101-120000-quick"
Command = Callable[..., str]


@pytest.fixture
def command(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Calls a command in a folder with two runs; returns what it prints."""
    write_run(tmp_path / "results", RUN, 100.0, 102.0, 101.0)
    write_run(tmp_path / "results", "20260102-120000-quick", 90.0)
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> str:
        get_command(main.cli).main(list(arguments), prog_name="dlsuite", standalone_mode=False)
        return capsys.readouterr().out

    return call


def test_history_shows_every_run_in_each_form(command: Command) -> None:
    text = command("history", "--framework", "pytorch")
    assert RUN in text and "20260102-120000-quick" in text
    rows = json.loads(command("history", "--format", "json"))
    assert [row["samples_per_s"] for row in rows] == [101.0, 90.0]
    assert len(command("history", "--format", "csv").splitlines()) == 3
    assert RUN not in command("history", "--last", "1")


def test_history_fails_where_one_of_the_newest_runs_became_slower(
    command: Command, tmp_path: Path
) -> None:
    command("history", "--fail-on-change")  # two runs show nothing
    levels = [100.0 + day / 10 for day in range(6)] + [90.0 + day / 10 for day in range(6)]
    for day, rate in enumerate(levels, start=3):
        write_run(tmp_path / "results", f"202601{day:02d}-120000-quick", rate)
    with pytest.raises(Slower, match=r"pytorch:eager, lenet: .* since 20260109-120000-quick"):
        command("history", "--fail-on-change", "--last", "6")
    command("history", "--fail-on-change", "--last", "5")  # the change is older


def test_a_query_with_more_columns_than_fit_has_a_line_for_each_value(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = command("query", "select * from records limit 2")
    assert re.search(r"^ +1 +framework +pytorch *$", text, re.MULTILINE)
    assert re.search(r"^ +2 +samples_per_s +[0-9.]+ *$", text, re.MULTILINE)


def test_history_names_a_run_that_it_leaves_out(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "results" / RUN / "x-r0.json").write_text("{")
    get_command(main.cli).main(["history"], prog_name="dlsuite", standalone_mode=False)
    captured = capsys.readouterr()
    assert "left out: results/20260101-120000-quick/x-r0.json: not a record" in captured.err
    assert RUN not in captured.out


def test_history_names_the_runs_that_it_leaves_out_though_no_record_fits(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "results" / RUN / "x-r0.json").write_text("{")
    with pytest.raises(DlsuiteError):
        command("history", "--model", "vgg16")
    assert f"left out: results/{RUN}/x-r0.json" in capsys.readouterr().err


def test_query_answers_in_each_form_and_shows_its_columns(command: Command) -> None:
    sql = "select run_id, runs from trials order by run_id"
    assert command("query", sql, "--format", "csv").splitlines()[1] == f"{RUN},3"
    assert json.loads(command("query", sql, "--format", "json"))[1]["runs"] == 1
    assert RUN in command("query", sql)
    assert command("query", f"{sql} limit 0") == ""
    columns = json.loads(command("query", "--format", "json"))
    assert {"records", "trials"} == {row["table"] for row in columns}


def test_a_run_is_exported_imported_and_verified(command: Command, tmp_path: Path) -> None:
    assert command("export", RUN, "run.tar.gz") == f"run.tar.gz: {RUN}, 3 files\n"
    printed = command("import", "run.tar.gz", "--results", "other")
    assert printed.startswith(f"other/{RUN}: imported")
    with pytest.raises(NotVerified, match="does not fit its checksums"):
        command("verify", RUN, "--results", "other")


def test_verify_prints_a_line_for_each_finding(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Records of the tests have no blocks, so their rates come from nowhere."""
    with pytest.raises(NotVerified):
        command("verify", RUN)
    lines = capsys.readouterr().out.splitlines()
    wrong = "pytorch-eager-r0.json: samples_per_s: expected None, found 100.0"
    assert f"finding: {wrong}" in lines
    absent = "SHA256SUMS: file: expected the digests of a finished run, found none"
    assert f"finding: {absent}" in lines
    with pytest.raises(NotVerified):
        command("verify", RUN, "--format", "json")
    found = json.loads(capsys.readouterr().out)
    assert found["records"] == 3
    assert {"where", "what", "expected", "found"} == set(found["findings"][0])


@pytest.mark.parametrize(
    ("error", "message", "arguments"),
    [
        (UsageError, "no record has framework 'jax'; known: pytorch", ("history", "-f", "jax")),
        (UsageError, "SQL: Parser Error", ("query", "selec")),
        (ResultsError, "none has no records", ("history", "--results", "none")),
        (ResultsError, "none has no records", ("export", "none", "x.tar.gz")),
        (ResultsError, "none has no records", ("verify", "none")),
        (ResultsError, "x.tar.gz cannot be imported: No such file", ("import", "x.tar.gz")),
    ],
)
def test_a_mistake_is_one_line_with_a_hint(
    command: Command, error: type[DlsuiteError], message: str, arguments: tuple[str, ...]
) -> None:
    with pytest.raises(error) as caught:
        command(*arguments)
    assert message in str(caught.value) and "\n" not in f"{caught.value}{caught.value.hint}"
    assert caught.value.hint
