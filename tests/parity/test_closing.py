"""The rules of the closing proof. The self-test's tests plant faults in timed runs."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from suite.engines.venv.engine import VenvEngine
from suite.models import MODELS
from suite.parity import closing
from suite.parity.replay import Replay, StateReference
from suite.parity.workers import LOWERINGS
from suite.protocol.plan import Plan
from suite.protocol.trial_file import Start
from suite.runner.frameworks import Frameworks
from tests.parity.replays import FLOAT32, tensors, with_adam, with_batch_norm


def test_a_missing_or_different_update_is_found(
    reference: Callable[..., StateReference],
) -> None:
    known = reference(tensors(0.01))
    same = closing._with_reference([tensors(0.01)], known, FLOAT32)
    assert same.verdict is None and closing._hidden(same) is None
    for other in (0.0, 0.005, 0.0101):
        assert closing._with_reference([tensors(other)], known, FLOAT32).share > 90
    loss = closing._with_reference([tensors(0.01, loss=1.01)], known, FLOAT32)
    assert "loss: relative error 1.0e-02 exceeds the tolerance" in str(loss.verdict)


def test_the_rounding_of_stored_weights_and_of_perturbed_ones_is_tolerated(
    reference: Callable[..., StateReference],
) -> None:
    off = tensors(0.01001)
    assert closing._with_reference([off], reference(tensors(0.01)), FLOAT32).verdict
    stored = reference(tensors(0.01), stored=2e-3)
    assert closing._with_reference([off], stored, FLOAT32).verdict is None
    perturbed = reference(tensors(0.01), perturbed=tensors(0.01001))
    assert closing._with_reference([off], perturbed, FLOAT32).verdict is None


def test_updates_hidden_by_rounding_prove_nothing(
    reference: Callable[..., StateReference],
) -> None:
    hidden = closing._with_reference([tensors(0.0)], reference(tensors(1e-9), stored=9.0), FLOAT32)
    assert hidden.verdict is None
    assert "training stands still" in str(closing._hidden(hidden))


def test_slots_and_means_in_bfloat16_are_found(quick: Callable[..., Plan], tmp_path: Path) -> None:
    trial, model = quick("pytorch").trials[0], MODELS["every_layer"]()
    numbers = np.random.default_rng(1)
    found = partial(closing._stored_in_bfloat16, tmp_path, trial, model)

    def put(name: str, values: np.ndarray) -> None:
        np.save(tmp_path / f"{name}.npy", values.astype(np.float32))

    def rounded(values: np.ndarray) -> np.ndarray:
        return (values.astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32)

    parts = [numbers.random(part.size) for part in model.statistics()]
    put("statistics", np.concatenate(parts))
    put("optimizer_velocity", numbers.random(50))
    assert found() is None
    put("optimizer_velocity", rounded(numbers.random(50)))
    assert "optimizer_velocity are bfloat16 numbers" in str(found())
    rate = trial.workload.optimizer.learning_rate if trial.workload.optimizer else 0
    put("optimizer_velocity", rounded(numbers.random(50)) / np.float32(rate))
    assert "optimizer_velocity are bfloat16 numbers" in str(found())
    put("optimizer_velocity", numbers.random(50))
    names = [part.name for part in model.statistics()]
    kept = [
        rounded(each) if name.endswith(".mean") else rounded(each) * 8 / 7
        for name, each in zip(names, parts, strict=True)
    ]
    put("statistics", np.concatenate(kept))
    assert "the means of batch norms are bfloat16 numbers" in str(found())


def test_the_rank_that_did_another_step_is_found(reference: Callable[..., StateReference]) -> None:
    known, right = reference(tensors(0.01)), tensors(0.01)
    assert closing._with_reference([right, right], known, FLOAT32).verdict is None
    assert closing._with_reference([right, tensors(0.02)], known, FLOAT32).verdict


@pytest.mark.verify
def test_one_worker_replays_the_same_from_each_draw_as_a_worker_of_its_own(
    quick: Callable[..., Plan], tmp_path: Path
) -> None:
    """Each draw starts from the saved statistics, slots and count of steps."""
    trial = with_adam(quick("pytorch").trials[0])
    inputs = with_batch_norm(trial, tmp_path)
    state = tmp_path / "state"
    state.mkdir()
    shutil.copy(inputs.weights, state / "weights.npy")
    shutil.copy(inputs.statistics, state / "statistics.npy")
    moment = np.full(inputs.architecture.parameter_count, 0.01)
    for slot in ("first_moment", "second_moment"):
        np.save(state / f"optimizer_{slot}.npy", moment)
    engine = VenvEngine()
    prover = Replay(
        engine=engine,
        prepared=Frameworks(engine, print).with_reference(),
        inputs=replace(inputs, weights=state / "weights.npy"),
        steps=2,
        work_dir=tmp_path,
        notify=print,
        start=Start(state=state, first_step=3, steps=2),
    )
    together = StateReference(prover=prover, trial=trial, key="").from_perturbed("float64", 2)
    (tmp_path / "alone").mkdir()
    alone = StateReference(prover=replace(prover, work_dir=tmp_path / "alone"), trial=trial, key="")
    for draw, (tensors_of,) in enumerate(together, start=1):
        (expected,) = alone._cached(LOWERINGS[0], "float64", draw)
        assert tensors_of.keys() == expected.keys()
        assert all(np.array_equal(tensors_of[name], expected[name]) for name in expected)
    assert not np.array_equal(together[0][0]["loss"], together[1][0]["loss"])
