"""The shares of a learning rate, by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from suite.worker import schedules

NUMBERS: dict[str, Any] = {
    "warmup_steps": 0,
    "total_steps": None,
    "final_share": 0.0,
    "step_size": None,
    "gamma": 0.1,
}


def shares(steps: int, **numbers: Any) -> list[float]:
    schedule = {**NUMBERS, **numbers}
    return [float(schedules.share(schedule, float(step), np)) for step in range(steps)]


def test_a_warm_up_rises_in_equal_parts_to_the_whole_rate() -> None:
    assert shares(6, shape="constant", warmup_steps=4) == [0.25, 0.5, 0.75, 1, 1, 1]


def test_a_linear_decay_ends_at_its_final_share() -> None:
    found = shares(8, shape="linear", warmup_steps=2, total_steps=6, final_share=0.2)
    assert found == pytest.approx([0.5, 1, 1, 0.8, 0.6, 0.4, 0.2, 0.2])


def test_a_cosine_has_half_the_rate_in_its_middle() -> None:
    found = shares(6, shape="cosine", total_steps=4)
    quarter = (1 + math.sqrt(0.5)) / 2
    assert found == pytest.approx([1, quarter, 0.5, 1 - quarter, 0, 0], abs=1e-15)


def test_steps_multiply_the_rate_each_time() -> None:
    found = shares(7, shape="steps", step_size=3, gamma=0.5, warmup_steps=1)
    assert found == pytest.approx([1, 1, 1, 1, 0.5, 0.5, 0.5])
