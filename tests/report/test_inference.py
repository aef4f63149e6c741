"""The queries of a trial over its runs."""

from suite.report.inference import of_runs
from suite.report.summary import summarise
from tests.report.made_inference import inferred
from tests.results.test_record import record


def test_percentiles_are_medians_over_runs_and_queries_the_fewest() -> None:
    runs = [
        inferred(p50_s=value, repeat=repeat, queries=2000 + repeat)
        for repeat, value in enumerate((3e-4, 2e-4, 4e-4))
    ]
    found = of_runs(runs)
    assert found is not None
    assert found.percentiles_s["99"] == 2 * 3e-4
    assert found.early_stopping_s["99"] == 2.5 * 3e-4
    assert (found.queries, found.answers) == (2000, 750)
    assert found.overhead_share is not None and abs(found.overhead_share - 1e-6 / 3e-4) < 1e-9


def test_an_estimate_that_some_runs_lack_is_that_of_the_others() -> None:
    runs = [inferred(), inferred(repeat=1, early_stopping_s={})]
    found = of_runs(runs)
    assert found is not None and found.early_stopping_s["90"] == 1.2 * 300e-6


def test_training_and_failed_runs_have_no_queries() -> None:
    assert of_runs([record(samples_per_s=1.0)]) is None
    assert of_runs([inferred(status="failed")]) is None


def test_trials_of_latencies_are_ordered_by_p50_and_summarised_with_its_interval() -> None:
    slow = [inferred(p50_s=5e-4, trial_id="slow", samples_per_s=9000.0)]
    fast = [
        inferred(p50_s=value, repeat=repeat, trial_id="fast", samples_per_s=1.0)
        for repeat, value in enumerate((1e-4, 2e-4, 3e-4))
    ]
    found = summarise([*slow, *fast])
    assert [each.record.trial_id for each in found] == ["fast", "slow"]
    assert (found[0].measured.median, found[0].measured.ci_high) == (2e-4, 3e-4)
    assert found[0].values == {0: 1e-4, 1: 2e-4, 2: 3e-4}


def test_a_server_is_measured_by_the_rate_that_holds() -> None:
    (found,) = summarise([inferred("server", rate_per_s=750.0)])
    assert (found.measured.median, found.speed, found.metric.heading) == (750, 750, "queries/s")
