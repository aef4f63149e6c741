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


def test_tolerances_come_from_float32_and_from_moved_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each run is off by so much in its one tensor, which is 1 in float64."""
    off = {("pytorch", "float32", 0): 1e-6, ("jax", "float32", 0): 3e-6}
    off |= {("pytorch", "float64", 1): 2e-6, ("pytorch", "float64", 2): 1e-3}

    def cached(
        self: Reference, which: tuple[str, str], precision: str, draw: int = 0
    ) -> list[Tensors]:
        return [{"logits": np.array([1 + off.get((which[0], precision, draw), 0.0)])}]

    monkeypatch.setattr(Reference, "_cached", cached)
    reference = Reference(prover=None, trial=None, key="")  # type: ignore[arg-type]
    assert reference.float32_tolerances(1) == [{"logits": pytest.approx(10 * 1e-6)}]
    assert reference.float32_tolerances(2) == [{"logits": pytest.approx(2 * 1e-3)}]
