"""GPUs that a command cannot use: nvidia-smi is a script here, and no worker is started."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.test_cli import dlsuite
from tests.conftest import rest_in_verify

BOARDS = """#!/bin/sh
test "$1" = -L && exit
for number in 1 2; do echo "GPU-$number, H100, {driver}, 81559 MiB, {mode}"; done
"""
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "bin" / "nvidia-smi"
    path.parent.mkdir()
    path.touch(0o755)
    return path


def boards(mode: str = "Default", driver: str = "590.10") -> str:
    return BOARDS.format(mode=mode, driver=driver)


def refusal(program: Path, *arguments: str) -> tuple[int, str]:
    """The exit code and standard error of a command that sees this nvidia-smi."""
    path = f"{program.parent}:{os.environ['PATH']}"
    reply = dlsuite(*arguments, "--framework", "pytorch", folder=program.parent.parent, PATH=path)
    assert "Traceback" not in reply.stderr and "bug in dlsuite" not in reply.stderr
    return reply.returncode, reply.stderr


@pytest.mark.parametrize(
    ("script", "options", "reason"),
    rest_in_verify(
        (boards(mode="Prohibited"), ("--gpus", "1"), "the compute mode of H100 is Prohibited"),
        (
            boards(mode="Exclusive_Process"),
            ("--gpus", "1", "--interleave"),
            "Exclusive_Process, and --interleave starts several workers on it",
        ),
        (boards(), ("--gpus", "4"), "nvidia-smi shows here are: 0 H100, 1 H100"),
        (f"#!/bin/sh\necho '{MISMATCH}'; exit 18\n", ("--gpus", "1"), MISMATCH),
        ("#!/bin/sh\nprintf '\\377'\n", ("--gpus", "1"), "here are: none"),
        ("#!/bin/sh\nexit 0\n", ("--gpus", "1"), "nvidia-smi: no answer"),
    ),
)
def test_a_run_on_gpus_that_cannot_do_it_is_refused(
    program: Path, script: str, options: tuple[str, ...], reason: str
) -> None:
    program.write_text(script)
    code, message = refusal(program, "run", "quick", *options)
    assert code in (2, 5) and reason in message and "hint: " in message


def test_a_peak_that_no_framework_measures_says_why(program: Path) -> None:
    program.write_text(boards(driver="525.60"))
    code, message = refusal(program, "peak", "--gpus", "1")
    assert code == 7
    assert "no framework measured a peak; pytorch: PyTorch's lock has CUDA" in message
    assert "this machine has 525.60" in message


def test_a_command_for_the_cpu_does_not_ask_nvidia_smi(program: Path, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    program.write_text(f"#!/bin/sh\ntouch {asked}\n")
    code, message = refusal(program, "run", "quick", "--max-time", "1s")
    assert code == 2 and "not even one trial fits into 1s" in message
    assert not asked.exists()
