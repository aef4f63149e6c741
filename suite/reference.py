"""The reference of a workload: float64 tensors that two independent lowerings agree on.

PyTorch and JAX compute it on the CPU. It is kept in the cache and serves every framework and
variant that is compared with it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from suite.paths import home
from suite.plan import Trial
from suite.tensors import ProofFailed, Prover, Tensors

TOLERANCE = 1e-9  # between the two float64 lowerings
LOWERINGS = (("pytorch", "eager"), ("jax", "jit"))

Errors = list[dict[str, float]]  # for each step: tensor -> relative L2 error


@dataclass(frozen=True, kw_only=True)
class Reference:
    prover: Prover
    trial: Trial  # any of the workload
    key: str  # of all that the reference holds for
    fresh: bool = False  # compute it now, whatever is cached

    @cached_property
    def tensors(self) -> list[Tensors]:
        """Those of each step up to where the two lowerings begin to disagree.

        ProofFailed where they cannot be had, or disagree from the first step on.
        """
        return self._agreed[0]

    @property
    def disagreement(self) -> float:
        """The largest relative error between the two lowerings in the steps they agree on."""
        return self._agreed[1]

    @cached_property
    def float32_errors(self) -> Errors:
        """How far float32 itself is from float64: the smaller error of the two lowerings in it.

        On the CPU, where no worker is allowed less than float32. The smaller: a fault in one of
        them does not widen the tolerance.
        """
        first, second = (
            compare(self._cached(which, "float32"), self.tensors) for which in LOWERINGS
        )
        return [
            {name: min(error, theirs[name]) for name, error in ours.items()}
            for ours, theirs in zip(first, second, strict=True)
        ]

    @cached_property
    def _agreed(self) -> tuple[list[Tensors], float]:
        first, second = (self._cached(which, "float64") for which in LOWERINGS)
        found = [largest(step) for step in compare(second, first)]
        steps = next((n for n, (_, error) in enumerate(found) if error > TOLERANCE), len(found))
        if steps == 0:
            name, error = found[0]
            raise ProofFailed(
                f"the two float64 references differ by {error:.1e} in {name} at the first step,"
                f" more than {TOLERANCE:.0e}"
            )
        return first[:steps], max(error for _, error in found[:steps])

    def _cached(self, which: tuple[str, str], precision: str) -> list[Tensors]:
        """What one of the lowerings computes, from the cache or now."""
        framework, variant = which
        path = home() / "references" / f"{self.key[:16]}-{framework}-{precision}.npz"
        found = None if self.fresh else _read(path, self.prover.steps)
        if found is None:
            self.prover.say(f"computing the reference in {framework}, {precision}")
            trial = replace(self.trial, framework=framework, variant=variant, device="cpu")
            found = self.prover.tensors(trial, precision, role="reference")
            _write(path, found)
        return found


def compare(found: list[Tensors], reference: list[Tensors]) -> Errors:
    """For each step that the reference has, the relative L2 error of each tensor."""
    return [
        {name: relative_error(step[name], expected[name]) for name in expected}
        for step, expected in zip(found, reference, strict=False)
    ]


def relative_error(found: NDArray[np.float64], expected: NDArray[np.float64]) -> float:
    """||found - expected|| / ||expected||, infinite where the shapes differ or a value is NaN."""
    if found.shape != expected.shape or not np.isfinite(found).all():
        return float("inf")
    difference, scale = np.linalg.norm(found - expected), np.linalg.norm(expected)
    return float(difference / scale) if scale else float(difference)


def largest(errors: dict[str, float]) -> tuple[str, float]:
    """The tensor with the largest error of a step, and the error; what is no number is largest."""
    return max(errors.items(), key=lambda each: each[1])


def _read(path: Path, steps: int) -> list[Tensors] | None:
    try:
        with np.load(path) as file:
            named = {name: file[name] for name in file.files}
    except (OSError, ValueError):
        return None
    tensors: list[Tensors] = [{} for _ in range(steps)]
    for name, values in named.items():
        step, _, tensor = name.partition(" ")
        tensors[int(step)][tensor] = values
    return tensors


def _write(path: Path, tensors: list[Tensors]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    named = {
        f"{number} {name}": values
        for number, step in enumerate(tensors)
        for name, values in step.items()
    }
    part = path.with_suffix(".part.npz")
    np.savez(part, **named)  # type: ignore[arg-type]
    part.replace(path)
