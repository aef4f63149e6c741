"""Exit codes and signals in words."""

import signal
from pathlib import Path

import pytest

from suite.worker import endings


def test_every_exit_code_has_a_message() -> None:
    for code in (3, 255, -(signal.SIGRTMIN + 1)):
        assert endings.ended(code) == f"exited with code {code} without reporting an error"
    for code in endings.CODES:
        assert endings.CODES[code] in endings.ended(code)


@pytest.mark.parametrize("name", endings.CAUSES)
def test_a_signal_is_named_with_its_likely_cause(name: str) -> None:
    assert endings.ended(-signal.Signals[name]).startswith(
        f"was killed by {name}; {endings.CAUSES[name]}"
    )


def test_the_last_line_of_a_log_is_the_reason(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"Traceback\nModuleNotFoundError: No module named 'numpy' \xff\n\n")
    reason = "ModuleNotFoundError: No module named 'numpy' \ufffd"
    assert endings.ended(1, log) == f"exited with code 1: {reason}"
    assert endings.ended(-signal.SIGABRT, log).endswith(f"the last line of its log: {reason}")
    assert "numpy" not in endings.ended(-signal.SIGKILL, log)


def test_an_illegal_instruction_names_what_the_processor_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endings, "CPUINFO", tmp_path / "cpuinfo")
    assert "it has no" not in endings.ended(-signal.SIGILL)
    (tmp_path / "cpuinfo").write_text("processor : 0\nflags : fpu sse4_2 avx\n")
    assert endings.ended(-signal.SIGILL).endswith("(it has no fma, avx2)")
    assert "it has no" not in endings.ended(-signal.SIGILL, here=False)
