"""Relative errors, and tensors that hold only rounding."""

from __future__ import annotations

import numpy as np
import pytest

from suite.parity.errors import (
    compare,
    disagreements,
    relative_error,
    rounding_of_zero,
    usual_norms,
)
from suite.parity.tensors import Tensors


def step(**values: float) -> Tensors:
    """Gradients of four equal values each, and a logit."""
    gradients = {f"gradients {name}": np.full(4, value) for name, value in values.items()}
    return gradients | {"logits": np.array([1e-15])}


def test_the_usual_norm_is_the_root_mean_square_of_a_group() -> None:
    usual = usual_norms(step(a=3.0, b=0.0) | {"weights a": np.zeros(4)})
    assert usual == {"gradients a": pytest.approx(18**0.5), "gradients b": pytest.approx(18**0.5)}


def test_a_small_tensor_that_differs_between_the_references_is_rounding() -> None:
    first, second = step(a=1.0, b=2e-17, c=3e-9), step(a=1.0, b=-1e-17, c=3.1e-9)
    assert rounding_of_zero(first, second, 1e-9) == ["gradients b"]


def test_a_small_tensor_on_which_the_references_agree_is_a_value() -> None:
    assert rounding_of_zero(step(a=1.0, b=2e-17), step(a=1.0, b=2e-17), 1e-9) == []


def test_a_tensor_that_is_rounding_in_one_reference_only_is_a_difference() -> None:
    assert rounding_of_zero(step(a=1.0, b=2e-17), step(a=1.0, b=1e-6), 1e-9) == []


def test_errors_of_a_zero_are_relative_to_the_scale_of_the_step() -> None:
    expected = [step(a=100.0, b=0.0)]
    (errors,) = compare([step(a=100.0, b=1e-3)], expected)
    assert errors["gradients b"] == pytest.approx(1e-5 * 2**0.5)
    assert errors["logits"] == 0
    assert relative_error(np.array([0.5]), np.array([0.0])) == 0.5


@pytest.mark.parametrize(("small", "error"), [(0.01, 1e-5), (1e-6, 2e-11 / 2**0.5 / 1e-3)])
def test_references_are_compared_on_the_scale_of_the_step_where_a_tensor_is_small(
    small: float, error: float
) -> None:
    reference, found = [step(a=1.0, b=small)], [step(a=1.0, b=small * (1 + 1e-5))]
    (judged,) = disagreements(found, reference)
    assert judged["gradients b"] == pytest.approx(error)
    assert judged["gradients a"] == judged["logits"] == 0
