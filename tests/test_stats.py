import pytest

from suite.stats import can_differ, compare, compare_pairs, summarise


def test_three_runs_give_their_median_and_an_interval_from_lowest_to_highest() -> None:
    summary = summarise([100.0, 130.0, 110.0])
    assert (summary.runs, summary.median) == (3, 110.0)
    assert (summary.ci_low, summary.ci_high) == (100.0, 130.0)
    assert summary.spread == pytest.approx(15 / 110)


def test_one_run_has_no_interval_and_none_has_no_figure() -> None:
    one = summarise([5.0])
    assert (one.median, one.ci_low, one.ci_high, one.spread) == (5.0, None, None, None)
    assert summarise([]).median is None


def test_the_interval_narrows_with_more_runs_and_is_the_same_each_time() -> None:
    values = [100.0 + step % 7 for step in range(40)]
    wide, narrow = summarise(values[:4]), summarise(values)
    assert narrow == summarise(values)
    assert narrow.spread is not None and wide.spread is not None
    assert narrow.spread < wide.spread


def test_a_difference_needs_the_test_and_the_interval() -> None:
    a = [100.0, 101.0, 99.0, 100.5, 99.5]
    assert compare(a, [value * 1.1 for value in a]).verdict == "faster"
    assert compare(a, [value * 0.9 for value in a]).verdict == "slower"
    same = compare(a, [100.2, 99.2, 101.1, 99.9, 100.4])
    assert same.verdict == "no difference shown"
    assert same.ci_low is not None and same.ci_high is not None and same.ci_low < 1 < same.ci_high


def test_the_exact_p_of_the_rank_test() -> None:
    """Of 4 and 4 runs, none of a below any of b: 2 of the 70 ways to deal them out."""
    found = compare([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0])
    assert found.p_value == pytest.approx(2 / 70)
    assert found.ratio == 2.6


def test_too_few_runs_show_nothing_however_far_apart() -> None:
    found = compare([1.0, 1.1, 1.2], [9.0, 9.1, 9.2])
    assert (found.verdict, found.p_value) == ("too few runs", None)
    assert found.ratio == pytest.approx(9.1 / 1.1)
    assert can_differ(4, 4) and can_differ(2, 20) and not can_differ(1, 20)
    with pytest.raises(ValueError, match="without a run"):
        compare([], [1.0])


def test_of_pairs_each_is_compared_with_its_own() -> None:
    """The machine's speed changes by a factor of five; each pair met the same."""
    speeds = [100.0, 400.0, 80.0, 250.0, 310.0, 150.0]
    pairs = [(speed, speed * (0.97 + number / 1000)) for number, speed in enumerate(speeds)]
    found = compare_pairs(pairs)
    assert (found.verdict, found.test) == ("slower", "Wilcoxon")
    assert found.p_value == pytest.approx(2 / 64)
    assert found.ratio == pytest.approx(0.9725)
    alone = compare([a for a, _ in pairs], [b for _, b in pairs])
    assert (alone.verdict, alone.test) == ("no difference shown", "Mann-Whitney")


def test_five_pairs_are_too_few() -> None:
    assert compare_pairs([(1.0, 2.0 + number / 10) for number in range(5)]).verdict == (
        "too few runs"
    )
    with pytest.raises(ValueError, match="no pair"):
        compare_pairs([])
