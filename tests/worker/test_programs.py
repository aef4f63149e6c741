"""Programs that are missing, late, silent, or fail after a part of their answer."""

from __future__ import annotations

import os
import stat
import sys
import time
from pathlib import Path

import pytest

from suite.worker import programs
from suite.worker.programs import ask


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Make a program `answer` on PATH from the lines of a shell script."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    def make(script: str) -> None:
        path = tmp_path / "answer"
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    return make


def test_a_whole_answer(program) -> None:
    program("echo one; echo noise >&2")
    answer = ask(["answer"], timeout_s=10)
    assert (answer.output, answer.problem, answer.missing) == ("one\n", None, False)


def test_a_missing_program_is_not_an_empty_answer() -> None:
    answer = ask(["no-such-program"], timeout_s=10)
    assert answer.missing
    assert answer.problem == "no-such-program: not on PATH"


def test_the_reason_of_a_failure_is_the_programs_own(program) -> None:
    program("echo part; echo 'Driver/library version mismatch' >&2; exit 18")
    answer = ask(["answer"], timeout_s=10)
    assert answer.output == "part\n"
    assert answer.problem == "answer: Driver/library version mismatch (exit code 18)"
    assert not answer.missing


def test_bytes_that_are_not_utf8_are_replaced(program) -> None:
    program(r"printf 'NVIDIA \377 A100\n'")
    assert ask(["answer"], timeout_s=10).output == "NVIDIA � A100\n"


def has_ended(pid: int) -> bool:
    """Whether a killed process is gone or a zombie; the kernel may need a moment to end it."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state in "ZX":
            return True
        time.sleep(0.1)
    return False


def test_a_late_program_is_killed_with_its_children_and_its_part_is_kept(program) -> None:
    program("echo first; sleep 60 & echo $!; wait")
    answer = ask(["answer"], timeout_s=0.3)
    assert answer.late and not answer.missing
    assert answer.problem == "answer did not answer within 0.3 s"
    first, child = answer.output.split()
    assert first == "first"
    assert has_ended(int(child))


def test_a_daemon_that_holds_the_output_does_not_delay_the_answer(
    program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "CLOSE_S", 0.2)
    program("setsid sleep 5 & echo whole")
    started_s = time.monotonic()
    answer = ask(["answer"], timeout_s=60)
    assert (answer.output, answer.problem) == ("whole\n", None)
    assert time.monotonic() - started_s < 4


def test_a_program_has_no_standard_input(program) -> None:
    program("cat; echo end")
    assert ask(["answer"], timeout_s=10).output == "end\n"


def test_a_program_that_was_killed(program) -> None:
    program("kill -11 $$")
    assert ask(["answer"], timeout_s=10).problem == "answer: killed by signal 11"


def test_the_folder_and_the_environment_are_the_callers(tmp_path: Path) -> None:
    code = "import os; print(os.getcwd(), os.environ.get('HERE'))"
    environment = {**os.environ, "HERE": "yes"}
    answer = ask([sys.executable, "-c", code], timeout_s=10, cwd=tmp_path, environment=environment)
    assert answer.output.split() == [str(tmp_path.resolve()), "yes"]
