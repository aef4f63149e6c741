"""The loop with a small real model: softmax regression in numpy."""

import fcntl
import itertools
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from suite.protocol import trial_file
from suite.worker import loop
from suite.worker.data import Batches
from suite.worker.losses import cross_entropies
from suite.worker.protocol import Array, Trial
from suite.worker.ranks import Alone


class Regression:
    """Softmax regression on pixels."""

    def __init__(self, learning_rate: float = 0.01) -> None:
        self.matrix = np.zeros((784, 10))
        self.steps = 0
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
        return float(cross_entropies(logits, labels).mean())

    def synchronize(self) -> None: ...

    def read(self, loss: Any) -> float:
        return float(loss)

    def logits(self, images: Array) -> Array:
        return images.reshape(len(images), -1) @ self.matrix

    def step_count(self) -> int:
        return self.steps


class Multistep(Regression):
    """The same, with three steps in one call."""

    steps_per_call = 3

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[int] = []  # the number of steps in each

    def train_step(self, batch: tuple[Array, Array]) -> float:
        self.calls.append(1)
        return super().train_step(batch)

    def train_steps(self, batches: tuple[Array, Array]) -> float:
        self.calls.append(len(batches[0]))
        return [super(Multistep, self).train_step(batch) for batch in zip(*batches, strict=True)][
            -1
        ]


def make_folder(tmp_path: Path) -> Path:
    """A folder for two interleaved workers."""
    return trial_file.make_interleaving(tmp_path / "interleaving", 2).folder


def train(trial: Trial, session: Any, **changes: Any) -> list[dict[str, Any]]:
    """The events of a short training; `changes` of the trial, those of `measure` one by one."""
    events: list[dict[str, Any]] = []

    def emit(event: str, **values: Any) -> None:
        events.append({"event": event, **values})

    values = {**trial.__dict__, **changes}
    values["measure"] = {
        "block_s": 0.002,
        "interleaved_block_s": 0.001,
        "max_warmup_blocks": 8,
        "min_measure_s": 0.01,
        "max_measure_s": 0.05,
        "relative_error": 0.05,
        **changes.get("measure", {}),
    }
    loop.train(Trial(**values), session, "NCHW", emit, Alone())
    return events


def test_a_run_of_epochs_does_all_their_steps_and_evaluates_each(trial: Trial) -> None:
    session = Regression()
    events = train(trial, session, epochs=2)
    kinds = [event["event"] for event in events]
    assert kinds[0] == "compiled"
    epochs = [event for event in events if event["event"] == "epoch"]
    assert [event["epoch"] for event in epochs] == [1, 2]
    assert epochs[0]["duration_s"] > 0
    assert epochs[1]["train_loss"] < epochs[0]["train_loss"] < np.log(10)
    *blocks, trained = [event for event in events if "steps" in event]
    steps = 1 + sum(event["steps"] for event in blocks)
    assert session.steps == steps >= 8
    assert trained == {"event": "trained", "steps": steps, "optimizer_steps": steps}


def test_an_epoch_of_one_step_is_evaluated_too(trial: Trial) -> None:
    events = train(trial, Regression(), epochs=1, batch_size=200)
    assert [event["event"] for event in events][:2] == ["compiled", "epoch"]


def test_blocks_are_whole_calls_and_the_rest_of_an_epoch_is_single_steps(trial: Trial) -> None:
    session, plain = Multistep(), Regression()
    events = train(trial, session, epochs=3)  # of four steps
    assert session.calls[:6] == [3, 1, 3, 1, 3, 1]
    assert set(session.calls[6:]) == {3}
    blocks = [event for event in events if event["event"] in ("warmup", "block")]
    assert all(block["steps"] % 3 == 0 for block in blocks)
    epochs = [event for event in events if event["event"] == "epoch"]
    expected = [event for event in train(trial, plain, epochs=3) if event["event"] == "epoch"]
    for found, other in zip(epochs, expected, strict=True):
        assert found["test_loss"] == pytest.approx(other["test_loss"], rel=1e-12)
    assert events[-1]["optimizer_steps"] == events[-1]["steps"] == sum(session.calls)


def test_epochs_shorter_than_a_call_are_single_steps(trial: Trial) -> None:
    session = Multistep()
    events = train(trial, session, epochs=2, batch_size=100)  # of two steps
    assert session.calls[:4] == [1] * 4 and set(session.calls[4:]) == {3}
    assert [event["epoch"] for event in events if event["event"] == "epoch"] == [1, 2]


def test_interleaved_calls_are_whole_too(trial: Trial, tmp_path: Path) -> None:
    session = Multistep()
    paths = {**trial.paths, "interleaving": str(make_folder(tmp_path))}
    events = train(trial, session, epochs=0, paths=paths)
    assert set(session.calls) == {3}
    timed = [event for event in events if event["event"] == "block"]
    assert timed and all(block["steps"] % 3 == 0 for block in timed)


def test_warm_up_precedes_the_blocks_and_has_a_maximum_length(trial: Trial) -> None:
    events = train(trial, Regression(), epochs=0)
    kinds = [event["event"] for event in events][1:]
    assert set(kinds) == {"warmup", "warm", "block", "trained"} and kinds[-1] == "trained"
    end = kinds.index("warm")
    assert set(kinds[:end]) == {"warmup"} and set(kinds[end + 1 : -1]) == {"block"}
    assert events[1 + end]["blocks"] == end <= 8


def test_a_warm_up_that_is_never_steady_ends_and_is_reported_as_not_steady(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "STEADY_CHANGE", -1.0)
    warm = next(e for e in train(trial, Regression(), epochs=0) if e["event"] == "warm")
    assert (warm["blocks"], warm["steady"]) == (8, False)


def test_blocks_are_long_compared_with_synchronization(trial: Trial) -> None:
    """A device that takes 0.2 ms to synchronize, and blocks of 2 ms."""

    class Distant(Regression):
        def synchronize(self) -> None:
            time.sleep(0.0002)

    events = train(trial, Distant(), epochs=0)
    synchronize_s = events[0]["synchronize_s"]
    assert synchronize_s >= 0.0002
    blocks = [event for event in events if event["event"] == "block"]
    # Durations vary: half of the calibrated duration is still ten times block_s.
    assert min(block["duration_s"] for block in blocks) > synchronize_s / 0.005 / 2


def test_an_interleaved_run_uses_its_whole_time_and_holds_its_turn_in_each_step(
    trial: Trial, tmp_path: Path
) -> None:
    folder = make_folder(tmp_path)

    class Checking(Regression):
        """Checks at each step that no other process can get the turn."""

        def train_step(self, batch: tuple[Array, Array]) -> float:
            with (folder / "turn").open() as file, pytest.raises(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return super().train_step(batch)

    paths = {**trial.paths, "interleaving": str(folder)}
    events = train(trial, Checking(), epochs=0, paths=paths)
    blocks = [event for event in events if event["event"] == "block"]
    quiet = [event["duration_s"] for event in blocks if not event["disturbed"]]
    assert sum(quiet) >= 0.05 > sum(quiet[:-1])


@pytest.mark.parametrize("permanent_blocks", [3, 1000])
def test_a_permanent_disturbance_is_not_waited_for(
    trial: Trial, monkeypatch: pytest.MonkeyPatch, permanent_blocks: int
) -> None:
    """Another process computes on the worker's CPU all the time."""
    monkeypatch.setattr(loop, "EXTRA_S", 0.8)
    monkeypatch.setattr(loop, "PERMANENT_BLOCKS", permanent_blocks)
    cpu = min(os.sched_getaffinity(0))
    former, busy = os.sched_getaffinity(0), ["-c", "while True: pass"]
    os.sched_setaffinity(0, {cpu})
    load = subprocess.Popen([sys.executable, *busy])
    try:
        # Blocks are long compared with the 10 ms in which the kernel counts CPU time.
        measure = {"block_s": 0.2, "max_warmup_blocks": 5, "max_measure_s": 0.4}
        events = train(trial, Regression(), epochs=0, cpus=[cpu], measure=measure)
    finally:
        load.kill()
        load.wait()
        os.sched_setaffinity(0, former)
    measured_s = sum(each["duration_s"] for each in events if each["event"] == "block")
    assert (measured_s > 1.0) == (permanent_blocks == 1000)


@pytest.mark.parametrize("long_step_s", [1.0, 0.0])
def test_an_interleaved_block_follows_untimed_steps_unless_steps_are_long(
    trial: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, long_step_s: float
) -> None:
    monkeypatch.setattr(loop, "LONG_STEP_S", long_step_s)
    paths = {**trial.paths, "interleaving": str(make_folder(tmp_path))}
    # Blocks of so many steps that their length varies on a busy machine too.
    measure = {"interleaved_block_s": 0.02, "max_measure_s": 0.3}
    events = train(trial, Regression(), epochs=0, paths=paths, measure=measure)
    timed = [event for event in events if "duration_s" in event]
    for before, after in itertools.pairwise(timed):
        lead_in = after["step"] - after["steps"] - before["step"]
        assert (lead_in > 0) == (after["event"] == "block" and long_step_s > 0)
    lengths = {event["steps"] for event in timed if event["event"] == "block"}
    assert (len(lengths) > 1) == (long_step_s > 0)


def test_interleaved_epochs_end_at_their_last_step(trial: Trial, tmp_path: Path) -> None:
    paths = {**trial.paths, "interleaving": str(make_folder(tmp_path))}
    events = train(trial, Regression(), epochs=9, paths=paths)
    assert [event["epoch"] for event in events if event["event"] == "epoch"] == [*range(1, 10)]


def test_a_rate_is_samples_over_duration(trial: Trial) -> None:
    events = train(trial, Regression(), epochs=0)
    for event in [each for each in events if "samples_per_s" in each]:
        expected = event["steps"] * 64 / event["duration_s"]
        assert event["samples_per_s"] == pytest.approx(expected)


def test_a_loss_that_is_not_finite_is_an_error(trial: Trial) -> None:
    with np.errstate(all="ignore"), pytest.raises(ArithmeticError, match="not finite after"):
        train(trial, Regression(learning_rate=float("inf")), epochs=0)


def test_an_evaluation_that_is_not_finite_is_an_error(trial: Trial) -> None:
    class Overflowing(Regression):
        """Its weights are not finite after the last step of the first epoch."""

        def train_step(self, batch: tuple[Array, Array]) -> float:
            loss = super().train_step(batch)
            if self.steps == Batches(trial, "NCHW").steps_per_epoch:
                self.matrix[:] = np.inf
            return loss

    with np.errstate(all="ignore"), pytest.raises(ArithmeticError, match="of the evaluation"):
        train(trial, Overflowing(), epochs=1)


def test_a_series_is_steady_when_the_medians_of_two_windows_agree() -> None:
    rising = [50.0, 100, 120, 140, 160, 180, 200]
    assert not loop.is_steady(rising)
    assert loop.is_steady([*rising, 200, 201, 199, 200, 200])
    assert not loop.is_steady([200.0] * 5)
