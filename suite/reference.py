"""The reference of a workload: float64 tensors that two independent lowerings agree on.

PyTorch and JAX compute it on the CPU. It is kept in the cache and serves every framework and
variant that is compared with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from suite import manifest
from suite.inputs import Inputs
from suite.paths import home
from suite.plan import Trial
from suite.tensors import ProofFailed, Prover, Tensors
from suite.tracks import EQUAL

TOLERANCE = 1e-9  # between the two float64 lowerings
MARGIN = 10  # times what float32 itself loses: so much noisier a framework may be
# Float32's own rounding is like weights moved by some 4 units in the last place; so weights moved
# by 20, and then doubled, stand for ten times that. A batch norm's mean is a long sum: where a
# framework adds n values one after the other, it is off by sqrt(n) / 6 units (root mean square,
# each partial sum being rounded by its own size). Where that is more, weights are moved by sqrt(n).
MOVED_ULPS = 20
MOVED_MARGIN = 2
MOVES = (1, 4, 16)  # draws of moved weights: more where fewer do not explain an error
LOWERINGS = (("pytorch", "eager"), ("jax", "jit"))

Errors = list[dict[str, float]]  # for each step: tensor -> relative L2 error


@dataclass(frozen=True, kw_only=True)
class Reference:
    prover: Prover
    trial: Trial  # any of the workload
    key: str  # of all that the reference holds for
    fresh: bool = False  # compute it now, whatever is cached
    _known: dict[Path, list[Tensors]] = field(default_factory=dict, init=False, repr=False)

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

    def float32_tolerances(self, moves: int) -> Errors:
        """How far rounding ten times that of float32 may lead from float64.

        Each lowering computes in float32 on the CPU; the smaller error of the two counts, so that
        a fault in one widens no tolerance. Beside it, float64 is computed `moves` times from
        weights moved at random, which tells what chance decides: whether an activation near the
        kink of a ReLU is on this side or that, or which of two is the largest of a pool.
        """
        plain = (compare(self._cached(which, "float32"), self.tensors) for which in LOWERINGS)
        found = times(MARGIN, _combined(min, *plain))
        for draw in range(1, moves + 1):
            errors = compare(self._cached(LOWERINGS[0], "float64", draw), self.tensors)
            found = _combined(max, found, times(MOVED_MARGIN, errors))
        return found

    def moved(self, draw: int) -> Inputs:
        """The inputs, with each weight moved at random, differently in each draw."""
        inputs = self.prover.inputs
        weights = np.load(inputs.weights)
        moves = np.random.default_rng(draw).uniform(-self._ulps, self._ulps, weights.size)
        path = self.prover.work / f"moved{draw}.npy"
        np.save(path, (weights * (1 + moves * np.finfo(np.float32).eps)).astype(np.float32))
        return replace(inputs, weights=path)

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

    def _cached(self, which: tuple[str, str], precision: str, draw: int = 0) -> list[Tensors]:
        """What one of the lowerings computes, from the cache or now.

        It begins with the weights as they are, or as a draw of moves (from 1) makes them.
        """
        framework = which[0]
        name = f"{precision}-moved{self._ulps:.0f}-{draw}" if draw else precision
        path = home() / "references" / f"{self.key[:16]}-{framework}-{name}.npz"
        if path in self._known:
            return self._known[path]
        found = None if self.fresh else _read(path, self.prover.steps)
        if found is None:
            self.prover.say(f"computing the reference in {framework}, {name}")
            found = self.computed(which, precision, draw)
            _write(path, found)
        self._known[path] = found
        return found

    def computed(self, which: tuple[str, str], precision: str, draw: int = 0) -> list[Tensors]:
        """What one of the lowerings computes now, on the CPU."""
        framework, variant = which
        trial = replace(
            self.trial,
            framework=framework,
            variant=variant,
            device="cpu",
            track=EQUAL,
            conditions=manifest.conditions(framework, EQUAL, "cpu"),
        )
        prover = replace(self.prover, inputs=self.moved(draw)) if draw else self.prover
        return prover.tensors(trial, precision, role=f"moved{draw}" if draw else "reference")

    @property
    def _ulps(self) -> float:
        """By how many units in the last place weights are moved."""
        values = self.prover.inputs.architecture.batch_norm_positions
        return max(MOVED_ULPS, math.sqrt(self.trial.workload.batch_size * values))


def _combined(choose: Callable[[float, float], float], first: Errors, second: Errors) -> Errors:
    return [
        {name: choose(error, theirs[name]) for name, error in ours.items()}
        for ours, theirs in zip(first, second, strict=True)
    ]


def times(factor: float, errors: Errors) -> Errors:
    """The errors, each multiplied."""
    return [{name: factor * error for name, error in step.items()} for step in errors]


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
