"""How numbers and durations are written."""

import pytest

from suite.report.numbers import (
    MICROSECONDS,
    MILLISECONDS,
    interval_of,
    latency_of,
    latency_unit,
    share_of_peak,
    with_unit,
)
from suite.results.metric import LATENCY, QUERY_RATE, RATE


@pytest.mark.parametrize(
    ("latency_s", "text"),
    [(123.4e-6, "123"), (99.96e-6, "100"), (27.4e-6, "27.4"), (4e-6, "4.00"), (None, "-")],
)
def test_a_latency_has_three_digits_or_more(latency_s: float | None, text: str) -> None:
    assert latency_of(latency_s, MICROSECONDS) == text


def test_the_unit_of_a_table_is_that_of_its_smallest_latency() -> None:
    assert latency_unit([None, 5.0, 0.9e-3]) is MICROSECONDS
    assert latency_unit([None, 5.0, 1e-3]) is MILLISECONDS
    assert latency_unit([]) is MILLISECONDS
    assert latency_of(5.0, MILLISECONDS) == "5,000"


def test_a_value_has_the_unit_of_its_metric() -> None:
    assert with_unit(274e-6, LATENCY) == "274 µs" and with_unit(1.5e-3, LATENCY) == "1.50 ms"
    assert with_unit(9500, RATE) == "9,500 samples/s"
    assert with_unit(7.25, QUERY_RATE) == "7.25 queries/s"
    assert with_unit(None, LATENCY) == "-"


def test_an_interval_has_one_unit() -> None:
    assert interval_of(0.9e-3, 1.2e-3, LATENCY) == "900 to 1,200 µs"
    assert interval_of(9400, 9600, RATE) == "9,400 to 9,600"


def test_a_share_below_one_percent_is_not_zero() -> None:
    assert [share_of_peak(each) for each in (0.314, 0.012, 0.0042)] == ["31%", "1%", "0.4%"]
