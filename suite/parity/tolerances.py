"""Judges errors relative to the reference: tolerances, and steps in which rounding explodes.

The rules and their reasons are in docs/reference/proofs.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from suite.parity.errors import Errors
from suite.parity.tensors import OWN_LOSS, Tensors
from suite.protocol.plan import Trial

# The tolerances of the rounding itself, from so many draws of perturbed weights.
RoundingTolerances = Callable[[int], Errors]

DRAWS = (1, 4, 16)  # of perturbed weights: more where fewer do not explain an error
# An error of more than so many tolerances is not explained by more draws either. In bfloat16 the
# first step of Adam, which is the sign of the gradient, turns that of a small value: an error of
# 2 / sqrt(n) in a tensor of n values, 0.5 for 16. In float32 one activation that crosses the kink
# of a ReLU changes the logits of the next step by five tolerances.
GIVE_UP = 16
BY_GRADIENT = ("gradients", "weights", "updates")
CUMULATIVE = ("weights", "updates")


@dataclass(frozen=True, kw_only=True)
class Rules:
    """How the errors of one precision of products are judged."""

    tolerance: float  # relative L2 error of a tensor
    rounding: str  # the precision in which the lowerings of the reference show its rounding
    margin: float  # a framework's error may be so many times that of the rounding
    perturbed: str  # the precision in which the steps from perturbed weights are computed
    perturbed_margin: float  # as `margin`, for the error from perturbed weights
    # A step whose logits need a wider tolerance is not compared, nor any after it.
    exploded: float
    # The updates of the first step may be longer or shorter by this share: see scale.py.
    scale: float
    two_sided: bool = False  # whether an error that is too small for the rounding is refused


RULES = {
    # Twice the error from perturbed weights also stands for ten times the rounding: reference.py
    # defines the size of the perturbation.
    "float32": Rules(
        tolerance=1e-4,
        rounding="float32",
        margin=10,
        perturbed="float64",
        perturbed_margin=2,
        exploded=1e-2,
        scale=1e-4,
    ),
    # About twenty roundings of an operand, each of up to 2^-11. The simulation rounds to nearest; a
    # GPU may truncate, with errors twice as large.
    "tf32": Rules(
        tolerance=1e-2,
        rounding="tf32_simulated",
        margin=6,
        perturbed="tf32_simulated",
        perturbed_margin=6,
        exploded=0.1,
        scale=8e-3,  # operands that are truncated shorten LeNet's updates by 4e-3
    ),
    # About ten roundings, each of up to 2^-8.
    "bf16_mixed": Rules(
        tolerance=4e-2,
        rounding="bf16_simulated",
        margin=3,
        perturbed="bf16_simulated",
        perturbed_margin=3,
        exploded=0.2,
        scale=2e-3,
        two_sided=True,
    ),
}
# With products in bfloat16, the logits have at least this share of the simulated error. That of
# float16, whose rounding is eight times smaller, is about an eighth.
LEAST_SHARE = 1 / 4
STORED_SHARE = LEAST_SHARE / 2  # the rounding of stored weights has at most this share
CHAOTIC_ERROR = 0.1  # simulated; larger ones come from discontinuities, not from precision
BEYOND_BFLOAT16 = np.uint32(0xFFFF)  # the bits of a float32 that a bfloat16 does not have


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
        return max(self._shares, default=0.0)

    @property
    def visible_share(self) -> float | None:
        """The share of updates of the first step whose omission, an error of 1, would be found."""
        names = [name for name in (self.errors or [{}])[0] if name.startswith("updates")]
        visible = sum(self._tolerance(0, name) < 1 for name in names)
        return visible / len(names) if names else None

    @property
    def first_excess(self) -> float:
        """The same in the first step with an excess, whose consequences later steps show."""
        return next((share for share in self._shares if not share <= 1), 0.0)

    @property
    def _shares(self) -> list[float]:
        """The largest error of each step, as a share of its tolerance."""
        return [
            max(error / self._tolerance(step, name) for name, error in tensors.items())
            for step, tensors in enumerate(self.errors)
        ]

    def _tolerance(self, step: int, name: str) -> float:
        return self.raised[step].get(name, self.tolerance) if self.raised else self.tolerance


def judge(
    errors: Errors,
    rounding_tolerances: RoundingTolerances,
    rules: Rules,
    *,
    least: Errors | None = None,
) -> Judged:
    """Judge the errors by the common tolerance or, where one exceeds it, by that of the rounding.

    The latter is computed from one draw of perturbed weights, from more where that does not explain
    the errors, and from all draws only where the excess is small. `least` has tolerances of some
    tensors that are known beforehand.
    """
    known = [{name: v for name, v in step.items() if v > rules.tolerance} for step in least or []]
    found = Judged(errors=errors, raised=known, tolerance=rules.tolerance)
    for draws in DRAWS:
        if errors and found.verdict is None:
            break
        if draws == DRAWS[-1] and found.first_excess > GIVE_UP:
            break
        rounding = rounding_tolerances(draws)
        if known:
            rounding = [_largest(*both) for both in zip(rounding, known, strict=True)]
        found = _judged(errors, rounding, rules)
        if not found.errors:  # rounding errors explode in the first step, with more draws too
            break
        found = found if found.verdict is None else until_kink(found) or found
    return found


def until_kink(found: Judged) -> Judged | None:
    """The steps up to the one in which an activation crosses a kink; None where none does.

    The gradients of that step exceed the common tolerance, but not that of the rounding; its logits
    and loss, and all tensors of the steps before it, are within the common one. Later steps start
    from other weights, so their errors show nothing. A wrong gradient is wrong in the first step.
    """
    for step, tensors in enumerate(found.errors):
        beyond = [name for name, error in tensors.items() if not error <= found.tolerance]
        if not beyond:
            continue
        if step == 0 or not all(name.startswith(BY_GRADIENT) for name in beyond):
            return None
        until = replace(found, errors=found.errors[: step + 1], raised=found.raised[: step + 1])
        return until if until.verdict is None else None
    return None


def _largest(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    """The larger of two tolerances, for each tensor of `one`."""
    return {name: max(value, other.get(name, 0.0)) for name, value in one.items()}


def _judged(errors: Errors, rounding: Errors, rules: Rules) -> Judged:
    """Judge with the tolerance of the rounding for each tensor for which it is the wider one.

    The steps from the one in which rounding errors explode are excluded. An activation crosses the
    kink of a ReLU in a random step. The tolerance of a gradient is therefore the largest of all
    steps, and that of weights and updates, which keep the consequences, the largest of its own and
    all later steps. Those of the first steps are not: the first step of Adam is the sign of the
    gradient, which the rounding may turn.
    """
    # The closing proof compares no logits: it starts from the run's own state.
    exploded = [step.get("logits", 0.0) > rules.exploded for step in rounding]
    kept = rounding[: exploded.index(True) if True in exploded else len(exploded)]

    def widened(number: int, name: str) -> float:
        if not name.startswith(BY_GRADIENT):
            return kept[number][name]
        others = kept[number:] if name.startswith(CUMULATIVE) else kept
        return max(step[name] for step in others)

    raised = [
        {name: value for name in step if (value := widened(number, name)) > rules.tolerance}
        for number, step in enumerate(kept)
    ]
    return Judged(errors=errors[: len(raised)], raised=raised, tolerance=rules.tolerance)


def worst(errors: Errors) -> dict[str, float]:
    """The largest error of each quantity over all steps: logits, loss, gradients, ..."""
    found: dict[str, float] = {}
    for tensors in errors:
        for name, error in tensors.items():
            quantity = name.split()[0]
            found[quantity] = max(error, found.get(quantity, 0.0))
    return found


def too_accurate(
    errors: dict[str, float], simulated: dict[str, float], storage: dict[str, float]
) -> str | None:
    """Why the first step is too accurate for bfloat16; None where it is not.

    `simulated` are the errors of the simulated rounding, `storage` the errors of the updates
    because weights are stored in float32. The logits come from a separate function, which a closing
    proof does not have, the updates from the timed step; the median of the updates counts.
    """
    error, expected = errors.get("logits", 1.0), simulated.get("logits", 0.0)
    if error < LEAST_SHARE * expected:
        return (
            f"step 0: logits: relative error {error:.1e}, that of products in bfloat16 is about"
            f" {expected:.1e}: the operands are not rounded to bfloat16"
        )
    # The rounding of stored weights is in updates of any precision. After many steps, it is chance
    # which discontinuities the simulation crosses and the run does not.
    shown = [
        name
        for name in storage
        if storage[name] < STORED_SHARE * simulated[name] and simulated[name] < CHAOTIC_ERROR
    ]
    share = float(np.median([errors[name] / simulated[name] for name in shown] or [1.0]))
    if share < LEAST_SHARE:
        return (
            f"the errors of the updates are {share:.1e} times those of products in bfloat16: the"
            " timed step does not round the operands to bfloat16"
        )
    return None


def loss_in_bfloat16(steps: list[Tensors]) -> str | None:
    """That the loss of every step is a bfloat16 number; None where one has more digits."""
    if not in_bfloat16(np.array([step.get(OWN_LOSS, step["loss"]) for step in steps])):
        return None
    return "the loss of every step is a bfloat16 number: it is not computed in float32"


def in_bfloat16(values: np.ndarray) -> bool:
    """Whether all values are bfloat16 numbers."""
    return not np.any(values.astype(np.float32).view(np.uint32) & BEYOND_BFLOAT16)


def nearly_in_bfloat16(values: np.ndarray) -> bool:
    """Whether all values are bfloat16 numbers, apart from two roundings to float32."""
    bits = values.astype(np.float32).view(np.uint32)
    return not np.any((bits + np.uint32(2)) & BEYOND_BFLOAT16 > np.uint32(4))


def rules_of(trial: Trial) -> Rules:
    """The rules of the workload's precision, or of TF32 on a GPU whose track allows that."""
    precision: str = trial.workload.precision
    in_tf32 = trial.devices.kind == "cuda" and trial.runtime.tf32 is not False
    return RULES["tf32" if in_tf32 and precision == "float32" else precision]
