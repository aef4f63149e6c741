"""What all engines share."""

import pytest

from suite.engines.base import signed


@pytest.mark.parametrize(
    ("reported", "expected"), [(0, 0), (3, 3), (128, 128), (137, -9), (139, -11), (255, 255)]
)
def test_the_exit_code_of_a_killed_program_is_minus_its_signal(
    reported: int, expected: int
) -> None:
    assert signed(reported) == expected
