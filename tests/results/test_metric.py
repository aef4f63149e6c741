"""What trials are compared by."""

from typing import get_args

from suite.manifests.workloads import Scenario
from suite.results.columns import TABLES
from suite.results.metric import BY_SCENARIO, LATENCY, QUERY_RATE, RATE, metric_of, values_of
from suite.results.record import RateTried
from tests.report.made_inference import inferred
from tests.results.test_record import record


def test_every_scenario_has_a_metric_whose_columns_the_index_has() -> None:
    assert BY_SCENARIO.keys() == {None, *get_args(Scenario)}
    columns = {each.name for each in TABLES["trials"]}
    assert all(columns.issuperset(metric.columns) for metric in BY_SCENARIO.values())


def test_the_metric_is_what_the_scenario_measures() -> None:
    assert metric_of(None) is RATE and RATE.of(record(samples_per_s=5.0)) == 5
    assert LATENCY.of(inferred(p50_s=2e-4)) == 2e-4 and LATENCY.lower_is_better
    assert LATENCY.of(record()) is None and QUERY_RATE.of(record()) is None
    assert QUERY_RATE.of(inferred("server", rate_per_s=70.0)) == 70


def test_a_rate_of_queries_whose_latencies_exceed_the_bound_is_none() -> None:
    held, missed = (RateTried(rate_per_s=90.0, p99_s=0.001, holds=holds) for holds in (True, False))
    fine = {"rate_per_s": 90.0, "p50_s": 1e-3}
    assert values_of([inferred("server", **fine, rates=(missed, held))]) == {0: 90.0}
    for changes in ({"rates": (held, missed)}, {"p50_s": 6e-3}):  # p99 is twice p50, 10 ms allowed
        assert values_of([inferred("server", **(fine | changes))]) == {}


def test_failed_runs_and_runs_without_a_value_are_left_out() -> None:
    runs = [inferred(), inferred(repeat=1, status="failed"), inferred(repeat=2, percentiles_s={})]
    assert values_of(runs) == {0: 300e-6}
