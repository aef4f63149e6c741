"""The rules of the closing proof for models with dropout."""

from collections.abc import Callable

import numpy as np
import pytest

from suite.parity import dropout
from suite.parity.replay import StateReference
from tests.parity.replays import FLOAT32, tensors


def test_a_step_with_dropout_must_lie_among_the_draws(
    reference: Callable[..., StateReference],
) -> None:
    draws = [tensors(0.01 * (1 + off), loss=1 + off) for off in (-0.1, 0.1, -0.05, 0.05)]
    known = reference(*draws)
    assert dropout.with_draws([tensors(0.0108, loss=1.15)], known, FLOAT32).verdict is None
    for update, loss, tensor in (
        (0.0, 1.0, " a: "),
        (0.02, 1.0, " a: "),
        (0.01, 2.2, "loss: "),
    ):
        verdict = dropout.with_draws([tensors(update, loss=loss)], known, FLOAT32).verdict
        assert f"{tensor}relative error" in str(verdict)


def test_a_step_without_dropout_is_found(
    reference: Callable[..., StateReference], monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = [tensors(0.01 * (1 + off)) for off in (-0.1, 0.1, -0.05, 0.05)]
    known = reference(*draws)
    monkeypatch.setattr(StateReference, "without_dropout", lambda *_: tensors(0.01))
    assert dropout.unmasked([tensors(0.0107)], known) is None
    for update in (0.01, 0.0102):
        reason = dropout.unmasked([tensors(update)], known)
        assert "as far from those without dropout" in str(reason)


def test_tensors_that_no_mask_changes_do_not_count(
    reference: Callable[..., StateReference], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the layers below a dead ReLU: no gradient reaches them."""
    still = np.zeros(4)
    draws = [tensors(0.01 * (1 + off)) | {"updates b": still} for off in (-0.1, 0.1)]
    plain = tensors(0.01) | {"updates b": still}
    monkeypatch.setattr(StateReference, "without_dropout", lambda *_: plain)
    found = tensors(0.0107) | {"updates b": still}
    assert dropout.unmasked([found], reference(*draws)) is None
    monkeypatch.setattr(StateReference, "without_dropout", lambda *_: tensors(0.0))
    reason = dropout.unmasked([tensors(0.0)], reference(tensors(0.0), tensors(0.0)))
    assert reason == "no update depends on the masks of dropout"


def test_a_missing_step_is_found_among_widely_scattered_draws(
    reference: Callable[..., StateReference],
) -> None:
    draws = [{"updates a": np.eye(4)[n], "loss": np.asarray(1.0)} for n in range(4)]
    found = {"updates a": np.zeros(4), "loss": np.asarray(1.0)}
    assert dropout.with_draws([found], reference(*draws), FLOAT32).verdict is not None


def test_the_rank_that_did_another_step_is_found(reference: Callable[..., StateReference]) -> None:
    draws = [tensors(0.01 * (1 + off), loss=1 + off) for off in (-0.1, 0.1, -0.05, 0.05)]
    assert dropout.with_draws([tensors(0.01), tensors(0.0)], reference(*draws), FLOAT32).verdict
