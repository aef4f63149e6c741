"""Statistics of runs: intervals, the two tests, and the ratio of interleaved runs."""

from collections.abc import Callable

import numpy as np
import pytest

from suite.results.stats import (
    Series,
    can_differ,
    compare,
    compare_rounds,
    interleaved_ratio,
    summarise,
)


def test_three_runs_give_their_median_and_an_interval_from_lowest_to_highest() -> None:
    summary = summarise([100.0, 130.0, 110.0])
    assert (summary.runs, summary.median) == (3, 110.0)
    assert (summary.ci_low, summary.ci_high) == (100.0, 130.0)
    assert summary.spread == pytest.approx(15 / 110)


def test_one_run_has_no_interval_and_no_run_has_no_median() -> None:
    one = summarise([5.0])
    assert (one.median, one.ci_low, one.ci_high, one.spread) == (5.0, None, None, None)
    assert summarise([]).median is None


def test_the_interval_narrows_with_more_runs_and_is_reproducible() -> None:
    values = [100.0 + step % 7 for step in range(40)]
    wide, narrow = summarise(values[:4]), summarise(values)
    assert narrow == summarise(values)
    assert narrow.spread is not None and wide.spread is not None
    assert narrow.spread < wide.spread


def test_a_difference_needs_both_the_test_and_the_interval() -> None:
    a = [100.0, 101.0, 99.0, 100.5, 99.5]
    assert compare(a, [value * 1.1 for value in a]).verdict == "faster"
    assert compare(a, [value * 0.9 for value in a]).verdict == "slower"
    same = compare(a, [100.2, 99.2, 101.1, 99.9, 100.4])
    assert same.verdict == "no difference shown"
    assert same.ci_low is not None and same.ci_high is not None and same.ci_low < 1 < same.ci_high


def test_the_rank_test_computes_the_exact_p_value() -> None:
    """Of 4 and 4 runs all of b are faster: 2 of the 70 arrangements are that extreme."""
    found = compare([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0])
    assert found.p_value == pytest.approx(2 / 70)
    assert found.ratio == 2.6


def test_too_few_runs_show_no_difference_however_far_apart() -> None:
    found = compare([1.0, 1.1, 1.2], [9.0, 9.1, 9.2])
    assert (found.verdict, found.p_value) == ("too few runs", None)
    assert found.ratio == pytest.approx(9.1 / 1.1)
    assert can_differ(4, 4) and can_differ(2, 20) and not can_differ(1, 40)
    with pytest.raises(ValueError, match="without a run"):
        compare([], [1.0])


def test_rounds_are_compared_within_themselves() -> None:
    """The machine's speed changes between rounds by a factor of five."""
    speeds = [100.0, 400.0, 80.0, 250.0, 310.0, 150.0]
    ratios = [0.97 + number / 1000 for number in range(len(speeds))]
    found = compare_rounds(ratios)
    assert (found.verdict, found.test) == ("slower", "Wilcoxon")
    assert found.p_value == pytest.approx(2 / 64)
    assert found.ratio == pytest.approx(0.9725)
    unpaired = compare(speeds, [a * ratio for a, ratio in zip(speeds, ratios, strict=True)])
    assert (unpaired.verdict, unpaired.test) == ("no difference shown", "Mann-Whitney")


def test_five_rounds_are_too_few() -> None:
    assert compare_rounds([2.0, 2.1, 2.2, 2.3, 2.4]).verdict == "too few runs"
    with pytest.raises(ValueError, match="no round"):
        compare_rounds([])


def interleaved(speed: Callable[[float], float], share: float) -> tuple[Series, Series]:
    """Alternating blocks of two processes on a machine of this speed; b reaches `share` of a."""
    a = [(time, speed(time)) for time in np.arange(0.0, 10.0, 0.2)]
    b = [(time, share * speed(time)) for time in np.arange(0.1, 10.0, 0.2)]
    return a, b


def test_slow_changes_of_the_machine_cancel_in_interleaved_runs() -> None:
    a, b = interleaved(lambda time: 1000 * 1.2**time, 0.97)
    assert interleaved_ratio(a, b) == pytest.approx(0.97)
    assert interleaved_ratio(b, a) == pytest.approx(1 / 0.97)


def test_blocks_after_the_other_process_has_ended_do_not_count() -> None:
    """At the end a runs alone on a machine that has become half as fast."""
    a, b = interleaved(lambda time: 1000.0, 0.97)
    a += [(10 + number / 10, 500.0) for number in range(1, 20)]
    assert interleaved_ratio(a, b) == pytest.approx(0.97, rel=0.01)


def test_a_block_ten_times_as_long_counts_by_its_logarithm() -> None:
    a, b = interleaved(lambda time: 1000.0, 1.0)
    a[20] = (a[20][0], 100.0)
    found = interleaved_ratio(a, b)
    # Of 98 blocks this one counts, and half of each of its two neighbors.
    assert found == pytest.approx(10 ** (2 / 98))


def test_without_overlapping_blocks_there_is_no_interleaved_ratio() -> None:
    assert interleaved_ratio([], []) is None
    assert interleaved_ratio([(1.0, 5.0)], [(2.0, 6.0)]) is None
    assert interleaved_ratio([(1.0, 5.0), (3.0, 5.0)], [(2.0, 6.0)]) == pytest.approx(1.2)
