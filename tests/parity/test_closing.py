"""How the closing proof judges; that it finds real faults in timed runs is in the self-test."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from suite.parity import closing
from suite.parity.closing import Replay, StateReference
from suite.parity.tensors import Tensors
from suite.parity.tolerances import TOLERANCES
from suite.protocol.plan import Plan
from suite.protocol.trial_file import Start

FLOAT32 = TOLERANCES["float32"]


def tensors(update: float, *, loss: float = 1.0) -> Tensors:
    """Of a model with one weight tensor; its update is `update` in each of four values."""
    values = np.full(4, update)
    return {"loss": np.asarray(loss), "weights a": 1 + values, "updates a": values}


@pytest.fixture
def reference(
    quick: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., StateReference]:
    """A reference whose lowerings compute what they are told; `perturbed` in each other draw."""

    def make(
        *draws: Tensors, stored: float = 0.0, perturbed: Tensors | None = None
    ) -> StateReference:
        def computed(self: StateReference, which: Any, precision: str, draw: int = 0) -> Any:
            alike = draw or (precision == "float32" and len(draws) == 1)
            return [perturbed or draws[0]] if alike else [*draws]

        monkeypatch.setattr(StateReference, "computed", computed)
        monkeypatch.setattr(closing, "_stored", lambda *known: {"updates a": stored})
        trial = quick("pytorch").trials[0]
        nothing: Any = None
        prover = Replay(
            engine=nothing,
            prepared={},
            inputs=nothing,
            steps=1,
            work=Path(),
            notify=print,
            start=Start(state=Path(), first_step=0, steps=1),
        )
        return StateReference(prover=prover, trial=trial, key="")

    return make


def test_an_update_that_is_missing_or_other_is_found(
    reference: Callable[..., StateReference],
) -> None:
    known = reference(tensors(0.01))
    same = closing._with_reference(tensors(0.01), known, FLOAT32)
    assert same.verdict is None and closing._hidden(same) is None
    for other in (0.0, 0.005, 0.0101):
        assert closing._with_reference(tensors(other), known, FLOAT32).share > 90
    loss = closing._with_reference(tensors(0.01, loss=1.01), known, FLOAT32)
    assert "loss is off by 1.0e-02" in str(loss.verdict)


def test_what_float32_loses_by_storing_a_weight_is_allowed(
    reference: Callable[..., StateReference],
) -> None:
    off = tensors(0.01001)
    assert closing._with_reference(off, reference(tensors(0.01)), FLOAT32).verdict
    assert (
        closing._with_reference(off, reference(tensors(0.01), stored=2e-3), FLOAT32).verdict is None
    )
    rounder = reference(tensors(0.01), perturbed=tensors(0.01001))
    assert closing._with_reference(off, rounder, FLOAT32).verdict is None


def test_updates_that_rounding_hides_show_nothing(
    reference: Callable[..., StateReference],
) -> None:
    resting = closing._with_reference(tensors(0.0), reference(tensors(1e-9), stored=9.0), FLOAT32)
    assert resting.verdict is None and "come to rest" in str(closing._hidden(resting))


def test_a_step_with_dropout_must_lie_among_the_draws(
    reference: Callable[..., StateReference],
) -> None:
    draws = [tensors(0.01 * (1 + off), loss=1 + off) for off in (-0.1, 0.1, -0.05, 0.05)]
    known = reference(*draws)
    assert closing._with_draws(tensors(0.0108, loss=1.15), known, FLOAT32).verdict is None
    for update, loss, words in (
        (0.0, 1.0, " a is"),
        (0.02, 1.0, " a is"),
        (0.01, 2.0, "loss is"),
    ):
        verdict = closing._with_draws(tensors(update, loss=loss), known, FLOAT32).verdict
        assert words in str(verdict)


def test_dropout_that_scatters_widely_still_shows_a_step_that_was_not_done(
    reference: Callable[..., StateReference],
) -> None:
    draws = [{"updates a": np.eye(4)[n], "loss": np.asarray(1.0)} for n in range(4)]
    found = {"updates a": np.zeros(4), "loss": np.asarray(1.0)}
    assert closing._with_draws(found, reference(*draws), FLOAT32).verdict is not None
