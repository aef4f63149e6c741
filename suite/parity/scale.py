"""The scale of updates: a rate that is slightly wrong is within the tolerances of rounding.

Rounding errors are nearly random, so they hardly change the length of an update, and its component
along that of the reference. A wrong learning rate, momentum or scale of the loss changes both in
every tensor. Several steps in one call can be chaotic: rounding then changes the length of their
sum too. The rule is in docs/reference/proofs.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from suite.parity.reference import STORAGE_MARGIN, Reference, storage_errors
from suite.parity.tensors import Tensors
from suite.parity.tolerances import DRAWS, Rules

VISIBLE = 0.5  # an update whose tolerance exceeds this share of it is hidden by rounding
NOISE_MARGIN = 3
CHAOS_DRAWS = DRAWS[1:]  # more where fewer do not explain an excess
CHAOS_MARGIN = 3


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much longer updates are than those of the reference, as medians over tensors."""

    excess: float  # 0: as long as those of the reference
    noise: float  # of the excess of one tensor, because weights are stored in float32


def wrong_scale(found: list[Tensors], reference: Reference, rules: Rules) -> str | None:
    """Why the updates of the first step are too long or too short; None where they are not.

    `found` are the tensors of each rank. The simulated rounding may shorten updates too, as the
    first step of Adam, in which it turns signs. An excess between 0 and that of the simulation is
    then right. Chaos widens the limit.
    """
    for scale in _scales(found, reference):
        limit = rules.scale + NOISE_MARGIN * scale.noise
        if abs(scale.excess) <= limit:
            continue
        rounded = _excesses(reference.rounded(rules), reference)
        if _is_between(scale.excess, rounded, limit):
            continue
        limits = (limit + CHAOS_MARGIN * _chaos(reference, draws) for draws in CHAOS_DRAWS)
        if not any(_is_between(scale.excess, rounded, wider) for wider in limits):
            return (
                f"the updates are {1 + scale.excess:.4f} times as long as those of the reference:"
                " a wrong learning rate, momentum or scale of the loss"
            )
    return None


def _is_between(excess: float, rounded: list[float], limit: float) -> bool:
    """Whether an excess is between 0 and one of the simulated rounding, with a limit."""
    return any(min(0, each) - limit <= excess <= max(0, each) + limit for each in rounded)


def _chaos(reference: Reference, draws: int) -> float:
    """The largest excess of updates from perturbed weights. Without chaos it is about 1e-6.

    The perturbation is that of float32 in all precisions: that of bfloat16 would hide a rate that
    is wrong by a hundredth.
    """
    excesses = _excesses(reference.from_perturbed("float64", draws), reference)
    return max(map(abs, excesses), default=0.0)


def _excesses(found: list[list[Tensors]], reference: Reference) -> list[float]:
    """The excess in the first of the steps, of each `found` that has visible updates."""
    return [scale.excess for scale in _scales([steps[0] for steps in found], reference)]


def _scales(found: list[Tensors], reference: Reference) -> list[Scale]:
    """Of the first step, of each `found` with an update that stored weights do not hide."""
    storage = storage_errors(reference)
    visible = {name: each for name, each in storage.items() if STORAGE_MARGIN * each < VISIBLE}
    scales = (_scale(each, reference.tensors[0], visible) for each in found)
    return [scale for scale in scales if scale is not None]


def _scale(found: Tensors, expected: Tensors, storage: dict[str, float]) -> Scale | None:
    """By the updates in `storage`, with their errors; None where there are none."""
    components, lengths, noises = [], [], []
    for name, error in storage.items():
        update, own = expected[name], found[name]
        length = float(np.linalg.norm(update))
        if not length or not np.isfinite(own).all():
            continue
        components.append(float(np.vdot(own, update)) / length**2 - 1)
        lengths.append(float(np.linalg.norm(own)) / length - 1)
        noises.append(error / math.sqrt(update.size))
    if not components:
        return None
    excess = _nearer_to_zero(float(np.median(components)), float(np.median(lengths)))
    return Scale(excess=excess, noise=float(np.median(noises)))


def _nearer_to_zero(component: float, length: float) -> float:
    """What both show of a wrong rate, which changes both by the same factor.

    Turned signs, as in the first step of Adam, shorten only the component, other rounding errors
    lengthen only the length.
    """
    if component * length <= 0:
        return 0.0
    return min(component, length, key=abs)
