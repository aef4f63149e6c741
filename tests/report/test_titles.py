"""Titles of workloads, and the order of tables."""

from suite.report.summary import summarise
from suite.report.titles import name_of, order, row_of, title_of, work_of
from tests.report.made_inference import inferred, offline
from tests.results.test_record import record


def test_a_title_of_scenario_offline_has_no_batch_size_but_its_rows_have() -> None:
    (trial,) = summarise(offline({16: 10.0}))
    assert title_of(trial) == "lenet on mnist, infer, float32, offline, cpu (2 cores)"
    assert work_of(trial) == "lenet on mnist, infer, batch 16, float32, offline, cpu (2 cores)"
    assert row_of(trial) == "pytorch:eager, batch 16"


def test_a_title_of_training_has_the_input_and_one_of_inference_has_not() -> None:
    train, latency = summarise([record(samples_per_s=1e9), inferred()])
    assert title_of(train) == work_of(train)
    assert "batch 64, float32, sgd 0.01, input from host, cpu" in title_of(train)
    assert "input" not in title_of(latency) and row_of(latency) == "pytorch:eager"


def test_a_framework_or_model_that_is_unknown_here_has_its_name_as_title() -> None:
    (trial,) = summarise([record(framework="mine", variant="fast", model="mynet")])
    assert name_of(trial) == "mine fast" and title_of(trial).startswith("mynet on mnist")
    assert trial.tokens_per_s is None


def test_training_is_first_then_the_scenarios_with_the_fastest_first() -> None:
    found = summarise(
        [
            inferred("server"),
            *offline({1: 10.0, 2: 20.0}),
            inferred(p50_s=2e-4, trial_id="slow"),
            inferred(p50_s=1e-4, trial_id="fast"),
            inferred("multi_stream"),
            record(trial_id="train", samples_per_s=1.0),
        ]
    )
    assert [each.record.trial_id for each in sorted(found, key=order)] == [
        "train",
        "fast",
        "slow",
        "pytorch-multi_stream-b8",
        "pytorch-eager-offline-b2",
        "pytorch-eager-offline-b1",
        "pytorch-server-b1",
    ]
