"""Two one-sided tests of paired differences."""

import numpy as np
import pytest
from scipy.stats import ttest_1samp, ttest_ind

from suite.results.equivalence import (
    ALPHA,
    paired,
    ratio_of_deviations,
    ratio_of_ratios,
    ratio_of_rounds,
    ratio_of_runs,
)

# Additional hours of sleep by two drugs in ten patients: the differences in Student (1908).
STUDENT = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4]


def test_the_interval_of_students_data_is_that_of_the_t_table() -> None:
    """Mean 1.58 and t = 4.0621 as published; the table has 1.833 for 9 degrees of freedom."""
    found = paired(STUDENT, margin=2.5)
    assert found.pairs == 10 and found.mean == pytest.approx(1.58)
    half = 1.833 * 1.58 / 4.0621
    assert found.ci_low == pytest.approx(1.58 - half, abs=5e-4)
    assert found.ci_high == pytest.approx(1.58 + half, abs=5e-4)


@pytest.mark.parametrize(
    ("margin", "verdict"), [(2.5, "yes"), (2.2, "not shown"), (0.9, "not shown"), (0.8, "no")]
)
def test_the_verdict_depends_on_where_the_interval_lies(margin: float, verdict: str) -> None:
    """The interval of Student's data is 0.867 to 2.293."""
    assert paired(STUDENT, margin=margin).verdict == verdict
    assert paired([-each for each in STUDENT], margin=margin).verdict == verdict


def test_the_verdict_is_that_of_the_one_sided_tests() -> None:
    generator = np.random.default_rng(1)
    verdicts = []
    for _ in range(200):
        sample = generator.normal(generator.choice([0, 0.25, 0.5]), 0.2, 5)
        found = paired(sample.tolist(), margin=0.25).verdict
        above = ttest_1samp(sample, -0.25, alternative="greater").pvalue
        below = ttest_1samp(sample, 0.25, alternative="less").pvalue
        assert (found == "yes") == (max(above, below) < ALPHA)
        beyond = min(1 - above, 1 - below)
        assert (found == "no") == (beyond < ALPHA)
        verdicts.append(found)
    assert set(verdicts) == {"yes", "no", "not shown"}


def test_few_pairs_decide_nothing() -> None:
    none, one, two = (paired([0.0] * pairs, margin=0.25) for pairs in range(3))
    assert (none.mean, none.ci_low, none.ci_high) == (None, None, None)
    assert (one.mean, one.ci_low, one.ci_high) == (0.0, None, None)
    assert (two.mean, two.ci_low, two.ci_high) == (0.0, 0.0, 0.0)
    assert {each.verdict for each in (none, one, two)} == {"too few seeds"}


def test_equal_differences_have_an_interval_without_width() -> None:
    assert paired([0.0, 0.0, 0.0], margin=0.25).verdict == "yes"
    assert paired([0.5, 0.5, 0.5], margin=0.25).verdict == "no"


def test_the_interval_of_a_ratio_is_that_of_welchs_test_of_logarithms() -> None:
    a, b = [100.0, 103.0, 98.0, 101.0], [90.0, 95.0, 91.0, 99.0, 93.0]
    found = ratio_of_runs(a, b)
    test = ttest_ind(np.log(b), np.log(a), equal_var=False).confidence_interval(1 - 2 * ALPHA)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((np.exp(test.low), np.exp(test.high)))
    back = ratio_of_runs(b, a)
    assert back is not None and back.low == pytest.approx(1 / found.high)


def test_the_interval_of_rounds_is_that_of_the_t_test_of_their_logarithms() -> None:
    ratios = [0.97, 0.99, 0.96, 1.01, 0.98, 0.97]
    found = ratio_of_rounds(ratios)
    test = ttest_1samp(np.log(ratios), 0).confidence_interval(1 - 2 * ALPHA)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((np.exp(test.low), np.exp(test.high)))


def test_one_run_has_no_interval_and_equal_runs_a_narrow_one() -> None:
    assert ratio_of_runs([1.0], [1.0, 2.0]) is None and ratio_of_rounds([1.0]) is None
    equal = ratio_of_runs([2.0, 2.0], [1.0, 1.0])
    assert equal is not None and (equal.low, equal.high) == (0.5, 0.5)


def test_the_runs_needed_grow_with_the_square_of_the_noise() -> None:
    numbers = np.random.default_rng(1)
    quiet, noisy = (
        ratio_of_rounds([*np.exp(numbers.normal(0, noise, 100))]) for noise in (0.01, 0.04)
    )
    assert quiet is not None and noisy is not None
    few, many = quiet.runs_needed(0.97), noisy.runs_needed(0.97)
    assert few is not None and many is not None and few < 6 and 8 < (many - 1) / (few - 1) < 32
    assert noisy.runs_needed(noisy.ratio * 1.0001) is None


def test_a_ratio_of_ratios_does_not_depend_on_the_machine() -> None:
    slow, fast = [100.0, 101.0, 99.0], [150.0, 151.5, 148.5]
    here = ratio_of_ratios((slow, fast), ([3 * each for each in slow], [3 * each for each in fast]))
    assert (
        here is not None and here.ratio == pytest.approx(1) and 0.95 < here.low < here.high < 1.05
    )
    other = ratio_of_ratios((slow, fast), (slow, [1.5 * each for each in fast]))
    assert other is not None and other.ratio == pytest.approx(1.5)
    assert ratio_of_ratios(([1.0], [1.0]), ([1.0], [1.0])) is None


def test_the_interval_of_a_ratio_of_deviations_covers_the_true_one_in_nine_of_ten_samples() -> None:
    generator = np.random.default_rng(5)
    covered = 0
    for _ in range(1000):
        a = np.exp(generator.normal(0, 0.02, 9)).tolist()
        b = np.exp(generator.normal(1, 0.06, 12)).tolist()
        found = ratio_of_deviations(a, b)
        assert found is not None
        covered += found.low <= 3 <= found.high
    assert covered / 1000 == pytest.approx(0.9, abs=0.03)


def test_equal_or_single_values_have_no_ratio_of_deviations() -> None:
    assert ratio_of_deviations([1.0], [1.0, 2.0]) is None
    assert ratio_of_deviations([2.0, 2.0], [1.0, 2.0]) is None
