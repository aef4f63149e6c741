"""Judges errors relative to the reference: tolerances, and steps in which rounding explodes.

The rules and their reasons are in docs/proofs.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from suite.protocol.plan import Trial

Errors = list[dict[str, float]]  # for each step: tensor -> relative L2 error
# The tolerances of float32, from so many draws of perturbed weights.
Float32Tolerances = Callable[[int], Errors]

DRAWS = (1, 4, 16)  # of perturbed weights: more where fewer do not explain an error
# Relative L2 error of a tensor, by the precision of products; TF32: about twenty roundings.
TOLERANCES = {"float32": 1e-4, "tf32": 1e-2}
EXPLODED = 1e-2  # a step whose logits need a wider tolerance is not compared, nor any after it
GIVE_UP = 4  # an error of more than this many tolerances is not explained by more draws either
BY_GRADIENT = ("gradients", "weights", "updates")


@dataclass(frozen=True, kw_only=True)
class Judged:
    """The errors of the steps that can be judged, and the raised tolerances of each step."""

    errors: Errors
    raised: Errors
    tolerance: float

    @property
    def verdict(self) -> str | None:
        """The first tensor that exceeds its tolerance, and its error; None where none does."""
        if not self.errors:
            return "rounding errors explode in the first step: nothing can be compared"
        for step in range(len(self.errors)):
            if excess := self.excess(step):
                return f"step {step}: {excess}"
        return None

    def excess(self, step: int) -> str | None:
        """The first tensor of a step that exceeds its tolerance, and its error."""
        for name, error in self.errors[step].items():
            tolerance = self._tolerance(step, name)
            if not error <= tolerance:
                return f"{name}: relative error {error:.1e} exceeds the tolerance {tolerance:.0e}"
        return None

    @property
    def share(self) -> float:
        """The largest error as a share of its tolerance: at most 1 where everything is proven."""
        shares = [
            error / self._tolerance(step, name)
            for step, tensors in enumerate(self.errors)
            for name, error in tensors.items()
        ]
        return max(shares, default=0.0)

    def _tolerance(self, step: int, name: str) -> float:
        return self.raised[step].get(name, self.tolerance) if self.raised else self.tolerance


def judge(
    errors: Errors,
    float32_tolerances: Float32Tolerances,
    tolerance: float,
    *,
    least: Errors | None = None,
) -> Judged:
    """Judge the errors by the common tolerance or, where one exceeds it, by that of float32.

    The latter is computed from one draw of perturbed weights, from more where that does not explain
    the errors, and from all draws only where the excess is small. `least` has wider tolerances of
    some tensors that are known beforehand.
    """
    found = Judged(errors=errors, raised=least or [], tolerance=tolerance)
    for draws in DRAWS:
        if errors and found.verdict is None:
            break
        if draws == DRAWS[-1] and found.share > GIVE_UP:
            break
        float32 = float32_tolerances(draws)
        if least:
            float32 = [_largest(*both) for both in zip(float32, least, strict=True)]
        found = _judged(errors, float32, tolerance)
    return found


def _largest(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    """The larger of two tolerances, for each tensor of `one`."""
    return {name: max(value, other.get(name, 0.0)) for name, value in one.items()}


def _judged(errors: Errors, float32: Errors, tolerance: float) -> Judged:
    """Judge with the tolerance of float32 for each tensor for which it is the wider one.

    The steps from the one in which rounding errors explode are excluded. The tolerance of a
    gradient is the largest of all steps, because an activation crosses the kink of a ReLU in a
    random step.
    """
    # The closing proof compares no logits: it starts from the run's own state.
    exploded = [step.get("logits", 0.0) > EXPLODED for step in float32]
    kept = float32[: exploded.index(True) if True in exploded else len(exploded)]
    widest = {name: max(step[name] for step in kept) for name in (kept[0] if kept else ())}
    raised = [
        {
            name: raised_to
            for name, own in step.items()
            if (raised_to := widest[name] if name.startswith(BY_GRADIENT) else own) > tolerance
        }
        for step in kept
    ]
    return Judged(errors=errors[: len(raised)], raised=raised, tolerance=tolerance)


def worst(errors: Errors) -> dict[str, float]:
    """The largest error of each quantity over all steps: logits, loss, gradients, ..."""
    found: dict[str, float] = {}
    for tensors in errors:
        for name, error in tensors.items():
            quantity = name.split()[0]
            found[quantity] = max(error, found.get(quantity, 0.0))
    return found


def tolerance_of(trial: Trial) -> float:
    """The tolerance of products in float32, or in TF32 on a GPU whose track allows that."""
    in_tf32 = trial.device != "cpu" and trial.runtime.tf32 is not False
    return TOLERANCES["tf32" if in_tf32 else "float32"]
