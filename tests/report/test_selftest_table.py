"""The findings of the self-test, as lines and as a table."""

import pytest

from suite.report.selftest_table import line
from suite.runner.selftest.finding import Finding


@pytest.mark.parametrize(
    ("fault", "caught_by", "text"),
    [
        ("a summed loss", "step 1: loss", "a summed loss in jax:jit: found by step 1: loss"),
        ("a summed loss", None, "a summed loss in jax:jit: NOT FOUND"),
        (None, None, "without a fault, jax:jit: ok"),
        (None, "step 1: loss", "without a fault, jax:jit: ALARM, step 1: loss"),
    ],
)
def test_a_finding_is_one_line(fault: str | None, caught_by: str | None, text: str) -> None:
    finding = Finding(
        fault=fault,
        framework="jax",
        variant="jit",
        precision="float32",
        device="cpu",
        caught_by=caught_by,
    )
    assert line(finding) == text
