"""The rules of the closing proof. The self-test's tests plant faults in timed runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from suite.parity import closing
from suite.parity.closing import Replay, StateReference
from suite.parity.tensors import Tensors
from suite.parity.tolerances import RULES
from suite.protocol.plan import Plan
from suite.protocol.trial_file import Start

FLOAT32 = RULES["float32"]


def tensors(update: float, *, loss: float = 1.0) -> Tensors:
    """Of a model with one weight tensor; its update is `update` in each of four values."""
    values = np.full(4, update)
    return {"loss": np.asarray(loss), "weights a": 1 + values, "updates a": values}


@pytest.fixture
def reference(
    quick: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., StateReference]:
    """A reference with fixed results: `draws` in float64, `perturbed` from perturbed weights."""

    def make(
        *draws: Tensors, stored: float = 0.0, perturbed: Tensors | None = None
    ) -> StateReference:
        def computed(self: StateReference, which: Any, precision: str, draw: int = 0) -> Any:
            one = draw or (precision == "float32" and len(draws) == 1)
            return [perturbed or draws[0]] if one else [*draws]

        monkeypatch.setattr(StateReference, "computed", computed)
        monkeypatch.setattr(closing, "_stored", lambda *known: {"updates a": stored})
        trial = quick("pytorch").trials[0]
        unused: Any = None
        prover = Replay(
            engine=unused,
            prepared={},
            inputs=unused,
            steps=1,
            work_dir=Path(),
            notify=print,
            start=Start(state=Path(), first_step=0, steps=1),
        )
        return StateReference(prover=prover, trial=trial, key="")

    return make


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


def test_a_step_with_dropout_must_lie_among_the_draws(
    reference: Callable[..., StateReference],
) -> None:
    draws = [tensors(0.01 * (1 + off), loss=1 + off) for off in (-0.1, 0.1, -0.05, 0.05)]
    known = reference(*draws)
    assert closing._with_draws([tensors(0.0108, loss=1.15)], known, FLOAT32).verdict is None
    for update, loss, tensor in (
        (0.0, 1.0, " a: "),
        (0.02, 1.0, " a: "),
        (0.01, 2.2, "loss: "),
    ):
        verdict = closing._with_draws([tensors(update, loss=loss)], known, FLOAT32).verdict
        assert f"{tensor}relative error" in str(verdict)


def test_a_step_without_dropout_is_found(
    reference: Callable[..., StateReference], monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = [tensors(0.01 * (1 + off)) for off in (-0.1, 0.1, -0.05, 0.05)]
    known = reference(*draws)
    monkeypatch.setattr(StateReference, "without_dropout", lambda *_: tensors(0.01))
    assert closing._unmasked([tensors(0.0107)], known) is None
    for update in (0.01, 0.0102):
        reason = closing._unmasked([tensors(update)], known)
        assert "as far from those without dropout" in str(reason)


def test_slots_in_bfloat16_are_found(tmp_path: Path) -> None:
    values = np.array([1.0, 0.5, 1.2345678], np.float32)
    np.save(tmp_path / "statistics.npy", np.zeros(0, np.float32))
    np.save(tmp_path / "optimizer_first_moment.npy", values)
    assert closing._stored_in_bfloat16(tmp_path) is None
    np.save(tmp_path / "optimizer_second_moment.npy", values[:2])
    reason = closing._stored_in_bfloat16(tmp_path)
    assert "optimizer_second_moment are bfloat16 numbers" in str(reason)


def test_a_missing_step_is_found_among_widely_scattered_draws(
    reference: Callable[..., StateReference],
) -> None:
    draws = [{"updates a": np.eye(4)[n], "loss": np.asarray(1.0)} for n in range(4)]
    found = {"updates a": np.zeros(4), "loss": np.asarray(1.0)}
    assert closing._with_draws([found], reference(*draws), FLOAT32).verdict is not None


def test_the_rank_that_did_another_step_is_found(reference: Callable[..., StateReference]) -> None:
    known, right = reference(tensors(0.01)), tensors(0.01)
    assert closing._with_reference([right, right], known, FLOAT32).verdict is None
    assert closing._with_reference([right, tensors(0.02)], known, FLOAT32).verdict
    draws = [tensors(0.01 * (1 + off), loss=1 + off) for off in (-0.1, 0.1, -0.05, 0.05)]
    assert closing._with_draws([right, tensors(0.0)], reference(*draws), FLOAT32).verdict
