"""Batch sizes of scenario offline, and the knee among them."""

import pytest

from suite.report import throughput
from suite.report.summary import summarise
from suite.results.record import Parity
from tests.report.made_inference import offline, untried


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ({1: 100.0, 2: 180.0, 4: 190.0, 8: 200.0}, 4),  # 190 is exactly the share
        ({1: 100.0, 2: 180.0, 4: 189.9, 8: 200.0}, 8),
        ({1: 200.0, 2: 100.0}, 1),
        ({1: 100.0, 2: 300.0, 4: 200.0}, 2),
    ],
)
def test_the_knee_is_the_smallest_batch_with_most_of_the_highest_rate(
    rates: dict[int, float], expected: int
) -> None:
    (series,) = throughput.series(summarise(offline(rates)))
    found = throughput.knee(series)
    assert found is not None and found.record.workload.batch_size == expected


def test_a_series_without_a_rate_has_no_knee() -> None:
    (series,) = throughput.series(summarise([untried("oom", 4, "killed")]))
    assert throughput.knee(series) is None
    assert throughput.tried(series) == series  # a table needs a row


def test_each_configuration_has_a_series_in_order_of_batch_sizes_the_fastest_first() -> None:
    jax: dict[str, object] = {"framework": "jax", "variant": "jit"}
    records = [*offline({8: 90.0, 1: 30.0}), *offline({1: 50.0, 8: 95.0}, **jax)]
    found = throughput.series(summarise(records))
    sizes = [[each.record.workload.batch_size for each in series] for series in found]
    assert sizes == [[1, 8], [1, 8]]
    assert [series[0].record.framework for series in found] == ["jax", "pytorch"]


def test_batch_sizes_that_did_not_fit_or_were_skipped_have_no_row() -> None:
    more = [untried("oom", 2, "killed", trial_id="o"), untried("skipped", 4, "s", trial_id="s")]
    (series,) = throughput.series(summarise([*offline({1: 10.0}), *more]))
    assert len(series) == 3
    assert [each.record.workload.batch_size for each in throughput.tried(series)] == [1]


def test_a_batch_size_with_a_rate_has_a_row_though_a_later_run_ran_out_of_memory() -> None:
    records = [*offline({1: 10.0, 2: 20.0}), untried("oom", 2, "killed", repeat=1)]
    (series,) = throughput.series(summarise(records))
    assert [each.record.workload.batch_size for each in throughput.tried(series)] == [1, 2]


def test_an_unproven_batch_size_is_not_the_knee_and_has_no_part_in_it() -> None:
    unproven = Parity(proven=False, reason="x")
    records = [*offline({1: 100.0, 2: 200.0}), *offline({4: 900.0}, parity=unproven)]
    (series,) = throughput.series(summarise(records))
    found = throughput.knee(series)
    assert found is not None and found.record.workload.batch_size == 2
