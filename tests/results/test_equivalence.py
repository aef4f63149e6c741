"""Two one-sided tests of paired differences."""

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from suite.results.equivalence import ALPHA, paired

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
