"""The rules of the closing proof for models with dropout, whose masks are random."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from suite.parity.errors import usual_norms
from suite.parity.tensors import Tensors
from suite.parity.tolerances import Judged, Rules, rules_of

if TYPE_CHECKING:
    from suite.parity.replay import StateReference

# A run may be so many times as far from the draws' mean as the farthest of them: a tensor, or a
# single value, whose distance varies more. Of eight normal draws, one value in 40,000 is farther.
DRAW_MARGIN = 3
VALUE_MARGIN = 6
# Without its masks, a step would be the one without dropout. The run is at least this share as far
# from that as the nearest draw, in the median of its tensors.
MASKED_SHARE = 0.5
# A tensor that is shorter than this share of a usual one is rounding: 84 units in the last place.
ROUNDING = 1e-5
DRAW_LENGTH = 2  # and at most twice as long as the longest draw, or half as long as the shortest


def with_draws(found: list[Tensors], reference: StateReference, rules: Rules) -> Judged:
    """Judge a model with dropout, whose masks are random: no two steps are equal.

    The run's step is compared with several steps of the reference with other masks. It must not be
    much farther from their mean than the farthest of them, and be of similar length.
    """
    draws = reference.masked(rules.rounding)
    stored = reference.storage_tolerances(draws[:1])[0]
    usual = usual_norms(draws[0])
    errors: dict[str, float] = {}
    raised: dict[str, float] = {}
    for name, value in ((name, of_rank[name]) for of_rank in found for name in draws[0]):
        each = np.stack([draw[name].ravel() for draw in draws])  # (draws, values)
        center = each.mean(axis=0)
        is_rounding = _is_rounding(value, each, usual.get(name, 0.0))
        scale = usual[name] if is_rounding else float(np.linalg.norm(center)) or 1.0
        error = float(np.linalg.norm(value.ravel() - center)) / scale
        # A draw is n / (n - 1) times as far from the mean of the others as from the mean of all n.
        farthest = float(np.linalg.norm(each - center, axis=1).max())
        spread = farthest * len(draws) / (len(draws) - 1) / scale
        error = error if is_rounding or _as_long(value, each) else float("inf")
        errors[name] = max(error, errors.get(name, 0.0))  # of the worst rank
        margin = DRAW_MARGIN if value.size > 1 else VALUE_MARGIN
        raised[name] = max(rules.tolerance, margin * spread, stored.get(name, 0.0))
    return Judged(errors=[errors], raised=[raised], tolerance=rules.tolerance)


def unmasked(found: list[Tensors], reference: StateReference) -> str | None:
    """Why a step was done without the masks of dropout; None where it was not."""
    precision = rules_of(reference.trial).rounding
    draws, plain = reference.masked(precision), reference.without_dropout(precision)
    updates = [name for name in plain if name.startswith("updates") and plain[name].size > 1]
    shares = []
    for name in updates:
        nearest = min(float(np.linalg.norm(draw[name] - plain[name])) for draw in draws)
        if nearest:  # else no gradient reaches the tensor, or only one that no mask changes
            distances = (float(np.linalg.norm(rank[name] - plain[name])) for rank in found)
            shares += [distance / nearest for distance in distances]
    if updates and not shares:
        return "no update depends on the masks of dropout"
    if not shares or np.median(shares) >= MASKED_SHARE:
        return None
    return f"the updates are {np.median(shares):.2f} as far from those without dropout as a draw's"


def _is_rounding(value: np.ndarray, draws: np.ndarray, usual: float) -> bool:
    """Whether a tensor is 0 but for the rounding of float32, in the run and in every draw.

    Such is the update of a bias that a batch norm removes. `usual` is the norm of a usual tensor.
    """
    lengths = (float(np.linalg.norm(value)), *np.linalg.norm(draws, axis=1))
    return bool(max(lengths) < ROUNDING * usual)


def _as_long(value: np.ndarray, draws: np.ndarray) -> bool:
    """Whether a tensor has a length (L2 norm) similar to those of the draws."""
    length, lengths = np.linalg.norm(value), np.linalg.norm(draws, axis=1)
    return bool(lengths.min() / DRAW_LENGTH <= length <= lengths.max() * DRAW_LENGTH)
