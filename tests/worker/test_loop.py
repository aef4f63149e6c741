"""The loop with a real, if small, model: softmax regression in numpy."""

from typing import Any

import numpy as np
import pytest

from suite.worker import loop
from suite.worker.protocol import Array, Trial, Weights


class Regression:
    """Softmax regression on pixels; `learning_rate` may be absurd."""

    def __init__(self, learning_rate: float = 0.01) -> None:
        self.matrix = np.zeros((784, 10))
        self.steps = 0
        self.read_in_block = False
        self._rate = learning_rate

    def put(self, inputs: Array, labels: Array) -> tuple[Array, Array]:
        return inputs, labels

    def train_step(self, batch: tuple[Array, Array]) -> float:
        images, labels = batch
        self.steps += 1
        logits = self.logits(images)
        exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
        gradient = exponentials / exponentials.sum(axis=1, keepdims=True)
        gradient[np.arange(len(labels)), labels] -= 1
        self.matrix -= self._rate * images.reshape(len(images), -1).T @ gradient / len(labels)
        return loop.cross_entropy(logits, labels)

    def synchronize(self) -> None: ...

    def read(self, loss: Any) -> float:
        return float(loss)

    def logits(self, images: Array) -> Array:
        return images.reshape(len(images), -1) @ self.matrix

    def gradients(self, inputs: Array, labels: Array) -> tuple[Array, Weights]:
        return self.logits(inputs), {}

    def statistics(self) -> Weights:
        return {}

    def weights(self) -> Weights:
        return {}


def train(trial: Trial, session: Any, **changes: Any) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []

    def emit(event: str, **values: Any) -> None:
        events.append({"event": event, **values})

    values = {**trial.__dict__, **changes}
    values["measure"] = {
        "block_s": 0.002,
        "max_warmup_blocks": 8,
        "min_measure_s": 0.01,
        "max_measure_s": 0.05,
        "relative_error": 0.05,
    }
    loop.train(Trial(**values), session, "NCHW", emit)
    return events


def test_an_epoch_run_does_all_its_steps_and_evaluates(trial: Trial) -> None:
    session = Regression()
    events = train(trial, session, epochs=2)
    kinds = [event["event"] for event in events]
    assert kinds[0] == "compiled"
    epochs = [event for event in events if event["event"] == "epoch"]
    assert [event["epoch"] for event in epochs] == [1, 2]
    assert epochs[0]["duration_s"] > 0
    assert epochs[1]["train_loss"] < epochs[0]["train_loss"] < np.log(10)
    steps = 1 + sum(event.get("steps", 0) for event in events)
    assert session.steps == steps >= 8


def test_an_epoch_of_one_step_is_evaluated_too(trial: Trial) -> None:
    events = train(trial, Regression(), epochs=1, batch_size=200)
    assert [event["event"] for event in events][:2] == ["compiled", "epoch"]


def test_warm_up_comes_first_ends_and_is_capped(trial: Trial) -> None:
    events = train(trial, Regression(), epochs=0)
    kinds = [event["event"] for event in events][1:]
    assert set(kinds) == {"warmup", "block"}
    first = kinds.index("block")
    assert "warmup" not in kinds[first:]
    assert first <= 8


def test_rates_are_steps_times_batch_over_duration(trial: Trial) -> None:
    for event in train(trial, Regression(), epochs=0)[1:]:
        expected = event["steps"] * 64 / event["duration_s"]
        assert event["samples_per_s"] == pytest.approx(expected)


def test_a_loss_that_is_not_finite_is_an_error(trial: Trial) -> None:
    with np.errstate(all="ignore"), pytest.raises(ArithmeticError, match="not finite after"):
        train(trial, Regression(learning_rate=float("inf")), epochs=0)


def test_a_series_is_steady_when_two_windows_agree() -> None:
    rising = [50.0, 100, 120, 140, 160, 180, 200]
    assert not loop._steady(rising)
    assert loop._steady([*rising, 200, 201, 199, 200, 200])
    assert not loop._steady([200.0] * 5)


def test_cross_entropy_is_that_of_softmax() -> None:
    logits = np.array([[2.0, 0.0, -1.0], [1000.0, 0.0, 0.0]])
    softmax = np.exp(logits[0]) / np.exp(logits[0]).sum()
    assert loop.cross_entropy(logits[:1], np.array([1])) == pytest.approx(-np.log(softmax[1]))
    assert loop.cross_entropy(logits[1:], np.array([0])) == pytest.approx(0)
