"""What all engines share."""

import signal

import pytest

from suite.engines import attempt
from suite.engines.base import signed
from suite.worker import launch


@pytest.mark.parametrize(
    ("reported", "expected"), [(0, 0), (3, 3), (128, 128), (137, -9), (139, -11), (255, 255)]
)
def test_the_exit_code_of_a_killed_program_is_minus_its_signal(
    reported: int, expected: int
) -> None:
    assert signed(reported) == expected


def test_every_exit_code_has_a_message() -> None:
    real_time = -(signal.SIGRTMIN + 1)
    for code in (3, 255, real_time):
        text = f"exited with code {code} without reporting an error"
        assert attempt._exit_message(code) == f"the worker {text}"
        assert launch._ending(code) == f"the process {text}"
    assert "SIGKILL" in attempt._exit_message(-9) and "SIGKILL" in launch._ending(-9)
