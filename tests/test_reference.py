import math

import numpy as np
import pytest

from suite.reference import Reference, relative_error
from suite.tensors import Tensors


def test_the_error_is_relative_and_bad_values_are_infinite() -> None:
    expected = np.array([3.0, 4.0])
    assert relative_error(np.array([3.0, 4.5]), expected) == pytest.approx(0.1)
    assert relative_error(np.array([3.0, math.nan]), expected) == math.inf
    assert relative_error(np.array([3.0]), expected) == math.inf
    assert relative_error(np.array([0.5]), np.array([0.0])) == 0.5


def test_float32_may_lose_what_both_lowerings_do_and_any_draw_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each run is off by so much in its one tensor, which is 1 in float64."""
    off = {("pytorch", 0): 1e-6, ("pytorch", 1): 1e-5, ("pytorch", 2): 1e-3}
    off |= {("jax", 0): 3e-6, ("jax", 1): 2e-6, ("jax", 2): 1e-4}

    def cached(
        self: Reference, which: tuple[str, str], precision: str, draw: int = 0
    ) -> list[Tensors]:
        error = 0.0 if precision == "float64" else off[which[0], draw]
        return [{"logits": np.array([1 + error])}]

    monkeypatch.setattr(Reference, "_cached", cached)
    reference = Reference(prover=None, trial=None, key="")  # type: ignore[arg-type]
    expected = [max(10 * 1e-6, 2 * 1e-5), 10 * 3e-6]
    assert reference.float32_tolerances(1) == [{"logits": pytest.approx(min(expected))}]
    assert reference.float32_tolerances(2) == [{"logits": pytest.approx(2 * 1e-4)}]
