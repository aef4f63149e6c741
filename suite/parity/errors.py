"""Errors of tensors relative to those of the reference."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce

import numpy as np
from numpy.typing import NDArray

from suite.parity.tensors import Tensors

Errors = list[dict[str, float]]  # for each step: tensor -> relative L2 error
# The groups of tensors whose values have one scale in a step.
GROUPS = ("gradients", "weights", "updates", "statistics")
# A tensor of float64 whose norm is less than this share of the usual norm, and that is not the same
# in both references, is 0: what it holds is rounding.
ROUNDING = 1e-12
# The difference of two references in a tensor that is smaller than this share of the usual norm is
# judged on this scale: what such a tensor is the sum of cancels, and leaves the rounding.
SMALL = 1e-3


def compare(found: list[Tensors], reference: list[Tensors]) -> Errors:
    """For each step that the reference has, the relative L2 error of each tensor.

    The error of a tensor that is 0 in the reference is relative to its usual norm.
    """
    errors = []
    for step, expected in zip(found, reference, strict=False):
        usual = usual_norms(expected)
        errors.append(
            {
                name: relative_error(step[name], values, zero=usual.get(name, 1.0))
                for name, values in expected.items()
            }
        )
    return errors


def disagreements(found: list[Tensors], reference: list[Tensors]) -> Errors:
    """As `compare`; that of a small tensor is relative to SMALL times its usual norm.

    The scale of a batch norm's weight before a convolution and another batch norm changes nothing
    but for epsilon: its gradient is 1e-5 of what it is the sum of, and so less exact.
    """
    errors = compare(found, reference)
    for step, expected in zip(errors, reference, strict=False):
        for name, usual in usual_norms(expected).items():
            norm, least = float(np.linalg.norm(expected[name])), SMALL * usual
            if 0 < norm < least:
                step[name] *= norm / least
    return errors


def compare_ranks(found: list[list[Tensors]], reference: list[Tensors]) -> Errors:
    """As `compare`, for the rank with the largest error of each tensor."""
    first, *others = (compare(of_rank, reference) for of_rank in found)
    return reduce(partial(combined, max), others, first)


def relative_error(
    found: NDArray[np.float64], expected: NDArray[np.float64], *, zero: float = 1.0
) -> float:
    """||found - expected|| / ||expected||; infinite where shapes differ or a value is NaN.

    Where ||expected|| is 0, `zero` takes its place.
    """
    finite = np.isfinite(found).all() and np.isfinite(expected).all()
    if found.shape != expected.shape or not finite:
        return float("inf")
    difference, scale = np.linalg.norm(found - expected), np.linalg.norm(expected)
    return float(difference / (scale or zero))


def usual_norms(tensors: Tensors) -> dict[str, float]:
    """For each tensor of a group, the root mean square of the norms in its group.

    Absent are groups of zeros. The norm of a sketch is nearly that of its tensor.
    """
    usual: dict[str, float] = {}
    for group in GROUPS:
        members = {name: each for name, each in tensors.items() if name.split(" ")[0] == group}
        if total := sum(float(np.vdot(each, each)) for each in members.values()):
            usual |= dict.fromkeys(members, (total / len(members)) ** 0.5)
    return usual


def rounding_of_zero(first: Tensors, second: Tensors, tolerance: float) -> list[str]:
    """The tensors of a step that are 0 but for rounding, which two lowerings round differently.

    A small tensor on which they agree within `tolerance` (relative) is not 0.
    """
    return [
        name
        for name, usual in usual_norms(first).items()
        if max(np.linalg.norm(first[name]), np.linalg.norm(second[name])) < ROUNDING * usual
        and relative_error(second[name], first[name]) > tolerance
    ]


def combined(choose: Callable[[float, float], float], first: Errors, second: Errors) -> Errors:
    """For each tensor of each step, the error that `choose` returns for the two errors."""
    return [
        {name: choose(error, other[name]) for name, error in one.items()}
        for one, other in zip(first, second, strict=True)
    ]


def times(factor: float, errors: Errors) -> Errors:
    """The errors, each multiplied."""
    return [{name: factor * error for name, error in step.items()} for step in errors]


def largest(errors: dict[str, float]) -> tuple[str, float]:
    """The tensor with the largest error of a step, and the error."""
    return max(errors.items(), key=lambda each: each[1])
