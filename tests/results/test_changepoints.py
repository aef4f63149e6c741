"""Change points: a planted change is found, and few are found where there is none."""

from collections.abc import Callable

import numpy as np
import pytest

from suite.results.changepoints import LEVEL, MAX_DRAWN, MIN_VALUES, change_points, pettitt

SERIES = 2000
Draw = Callable[[np.random.Generator, int], list[float]]


def normal(generator: np.random.Generator, count: int) -> list[float]:
    """Medians with a standard deviation of 2 %."""
    return list(generator.normal(100, 2, count))


def with_outliers(generator: np.random.Generator, count: int) -> list[float]:
    """Student's t with two degrees of freedom: some values are far from the others."""
    return list(100 + 2 * generator.standard_t(2, count))


@pytest.mark.parametrize(
    ("draw", "count", "stated"),
    [
        (normal, MIN_VALUES, 0.027),
        (normal, 20, 0.038),
        (normal, MAX_DRAWN + 1, 0.030),
        (with_outliers, MIN_VALUES, 0.025),
        (with_outliers, 20, 0.046),
        (with_outliers, MAX_DRAWN + 1, 0.033),
    ],
)
def test_a_series_without_a_change_shows_one_in_at_most_a_twentieth(
    draw: Draw, count: int, stated: float
) -> None:
    """docs/how-to/history.md states these rates; their standard error is below half a percent."""
    generator = np.random.default_rng(1)
    shown = sum(bool(change_points(draw(generator, count))) for _ in range(SERIES))
    rate = shown / SERIES
    assert rate == pytest.approx(stated, abs=0.001) and rate <= LEVEL


def test_fewer_values_than_the_minimum_show_no_change() -> None:
    assert change_points([1.0, 1.1, 1.2, 9.0, 9.1, 9.2, 9.3]) == []
    assert len(change_points([1.0, 1.1, 1.2, 1.3, 9.0, 9.1, 9.2, 9.3])) == 1
    assert change_points([]) == []


def test_a_planted_change_is_found_at_its_place_with_its_size() -> None:
    generator = np.random.default_rng(2)
    values = [*generator.normal(100, 1, 9), *generator.normal(110, 1, 6)]
    (found,) = change_points(values)
    assert found.position == 9
    assert found.ratio == pytest.approx(1.1, abs=0.02)
    assert found.p_value < 0.01


def test_two_planted_changes_are_both_found() -> None:
    generator = np.random.default_rng(3)
    levels = (100, 120, 90)
    values = [value for level in levels for value in generator.normal(level, 1, 12)]
    found = change_points(values)
    assert [each.position for each in found] == [12, 24]
    assert [each.ratio for each in found] == pytest.approx([1.2, 0.75], abs=0.02)


def test_a_single_disturbed_run_is_no_change() -> None:
    values = normal(np.random.default_rng(4), 15)
    values[7] = 20.0
    assert change_points(values) == []


def test_equal_values_have_no_change() -> None:
    assert change_points([5.0] * 20) == []


def test_the_statistic_is_that_of_the_definition() -> None:
    """K is the largest |sum of sign(x_j - x_i)| over i <= t < j (Pettitt 1979)."""
    values = normal(np.random.default_rng(5), 70)
    signs = np.sign(np.subtract.outer(values, values))
    sums = [abs(signs[position:, :position].sum()) for position in range(1, len(values))]
    largest, count = max(sums), len(values)
    position, p_value = pettitt(values)
    assert position == sums.index(largest) + 1
    expected = min(1.0, 2 * np.exp(-6 * largest**2 / (count**3 + count**2)))
    assert p_value == pytest.approx(expected)
