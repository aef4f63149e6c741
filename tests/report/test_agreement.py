"""One framework that learns otherwise than the others is named."""

import math

from suite.report.agreement import CHANCE, warnings
from suite.results.record import Epoch, Record
from tests.test_records import record

SAMPLES = 10_000


def learnt(accuracy: float, loss: float = 0.1, **changes: object) -> list[Record]:
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


def apart(**trials: list[Record]) -> dict[str, str]:
    return {name: found[0].detail for name, found in warnings(trials).items()}


def test_what_chance_explains_is_no_warning() -> None:
    error = math.sqrt(2 * 0.97 * 0.03 / SAMPLES)
    near = 0.97 + 0.9 * CHANCE * error
    assert apart(a=learnt(0.97), b=learnt(0.97), c=learnt(near)) == {}


def test_who_learns_less_or_more_is_named_and_the_others_are_not() -> None:
    assert apart(a=learnt(0.97), b=learnt(0.9702), c=learnt(0.83)) == {
        "c": "accuracy 83.00%, median 97.00%"
    }
    assert apart(a=learnt(0.97), b=learnt(0.97), c=learnt(0.97, loss=0.2)) == {
        "c": "test loss 0.2, median 0.1"
    }


def test_of_two_that_differ_neither_is_known_to_be_right() -> None:
    assert set(apart(a=learnt(0.97), b=learnt(0.83))) == {"a", "b"}


def test_only_the_same_work_is_compared() -> None:
    other = learnt(0.5, batch_size=32)
    assert apart(a=learnt(0.97), b=learnt(0.97), c=other) == {}
    failed = learnt(0.5, status="failed")
    assert apart(a=learnt(0.97), b=learnt(0.97), c=failed) == {}


def test_all_right_leaves_room_for_one_wrong() -> None:
    assert apart(a=learnt(1.0), b=learnt(1.0), c=learnt(1 - 1 / SAMPLES)) == {}
