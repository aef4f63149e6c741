"""Warnings about a framework whose loss or accuracy differs from the others'."""

import math

from suite.report.agreement import THRESHOLD, warnings
from suite.results.record import Epoch, Record
from tests.results.test_record import record

SAMPLES = 10_000


def trained(accuracy: float, loss: float = 0.1, **changes: object) -> list[Record]:
    """Two runs of a trial, the first with an epoch that ends with this accuracy and loss."""
    epoch = Epoch(
        epoch=1,
        duration_s=1,
        train_loss=loss,
        train_accuracy=accuracy,
        test_loss=loss,
        test_accuracy=accuracy,
        test_samples=SAMPLES,
        test_loss_error=0.002,
    )
    return [record(epochs=(epoch,), **changes), record(repeat=1, **changes)]


def differing(**trials: list[Record]) -> dict[str, str]:
    """The details of the warnings, by trial."""
    return {name: found[0].detail for name, found in warnings(trials).items()}


def test_a_difference_that_chance_explains_raises_no_warning() -> None:
    error = math.sqrt(2 * 0.97 * 0.03 / SAMPLES)
    near = 0.97 + 0.9 * THRESHOLD * error
    assert differing(a=trained(0.97), b=trained(0.97), c=trained(near)) == {}


def test_only_the_trial_that_differs_from_the_median_is_named() -> None:
    assert differing(a=trained(0.97), b=trained(0.9702), c=trained(0.83)) == {
        "c": "accuracy 83.00%, median 97.00%"
    }
    assert differing(a=trained(0.97), b=trained(0.97), c=trained(0.97, loss=0.2)) == {
        "c": "test loss 0.2, median 0.1"
    }


def test_a_sequence_has_a_prediction_for_each_token() -> None:
    """The limit of the accuracy is that of 64 times as many predictions as sequences."""
    error = math.sqrt(2 * 0.5 * 0.5 / (SAMPLES * 64))
    text: dict[str, object] = {"model": "gpt_tiny", "dataset": "moby_dick"}
    near, far = (0.5 + factor * THRESHOLD * error for factor in (0.9, 1.1))
    assert differing(a=trained(0.5, **text), b=trained(0.5, **text), c=trained(near, **text)) == {}
    found = differing(a=trained(0.5, **text), b=trained(0.5, **text), c=trained(far, **text))
    assert set(found) == {"c"}


def test_of_two_trials_that_differ_both_are_named() -> None:
    """Neither of the two is known to be right."""
    assert set(differing(a=trained(0.97), b=trained(0.83))) == {"a", "b"}


def test_only_equal_workloads_are_compared() -> None:
    other = trained(0.5, batch_size=32)
    assert differing(a=trained(0.97), b=trained(0.97), c=other) == {}
    failed = trained(0.5, status="failed")
    assert differing(a=trained(0.97), b=trained(0.97), c=failed) == {}


def test_one_wrong_answer_is_no_difference_where_all_others_are_right() -> None:
    assert differing(a=trained(1.0), b=trained(1.0), c=trained(1 - 1 / SAMPLES)) == {}
