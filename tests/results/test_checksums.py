"""SHA256SUMS: the form of sha256sum, and the files that it covers."""

import subprocess
from pathlib import Path

import pytest

from suite.errors import ResultsError
from suite.paths import sha256
from suite.results import checksums


def test_sha256sum_accepts_the_file(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    for name in ("plan.json", "logs/a.log", "report.html", ".hidden", "notes.txt"):
        (tmp_path / name).write_text(name)
    checksums.write(tmp_path)
    assert checksums.read(tmp_path) == {
        "logs/a.log": sha256(tmp_path / "logs" / "a.log"),
        "plan.json": sha256(tmp_path / "plan.json"),
        "report.html": sha256(tmp_path / "report.html"),
    }
    command = ["sha256sum", "--check", "--strict", checksums.NAME]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)


def test_a_file_without_digests_is_refused_and_a_missing_one_is_none(tmp_path: Path) -> None:
    assert checksums.read(tmp_path) is None
    (tmp_path / checksums.NAME).write_text("abc plan.json\n")
    with pytest.raises(ResultsError, match="line 1 is not a digest and a path"):
        checksums.read(tmp_path)


def test_a_finished_run_without_checksums_gets_them_once(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{}")
    checksums.complete(tmp_path)
    before = checksums.read(tmp_path)
    (tmp_path / "plan.json").write_text("{ }")
    checksums.complete(tmp_path)
    assert before is not None and checksums.read(tmp_path) == before


def test_a_file_that_is_made_later_is_added_to_those_of_a_finished_run(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{}")
    (tmp_path / "report.html").write_text("page")
    checksums.add(tmp_path, "report.html")
    assert checksums.read(tmp_path) is None  # the run is not finished
    checksums.write(tmp_path)
    (tmp_path / "report.html").write_text("another page")
    checksums.add(tmp_path, "report.html")
    assert checksums.read(tmp_path) == {
        name: sha256(tmp_path / name) for name in ("plan.json", "report.html")
    }
