import pytest

from suite.stats import summarise


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
