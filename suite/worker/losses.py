"""The losses, computed in NumPy from logits for the evaluation of an epoch.

docs/reference/protocol.md has their formulas.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .protocol import Array


def cross_entropies(logits: Array, labels: Array) -> Array:
    """-log softmax(logits)[label] for each label; the classes are the last axis of the logits."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_sum = np.log(np.exp(shifted).sum(axis=-1))
    losses: Array = log_sum - np.take_along_axis(shifted, labels[..., None], -1)[..., 0]
    return losses


def squared_errors(outputs: Array, targets: Array) -> Array:
    """The mean over the outputs of (output - target)^2, (N,)."""
    errors: Array = np.square(outputs - targets).mean(axis=-1)
    return errors


def huber_losses(outputs: Array, targets: Array) -> Array:
    """The mean over the outputs of Huber's loss (1964) with the threshold 1, (N,)."""
    errors = np.abs(outputs - targets)
    small = np.minimum(errors, 1)
    losses: Array = (small**2 / 2 + errors - small).mean(axis=-1)
    return losses


def binary_cross_entropies(logits: Array, labels: Array) -> Array:
    """The mean over the outputs of log(1 + exp(logit)) - label logit, (N,); labels are 0 or 1."""
    losses: Array = (np.logaddexp(0, logits) - labels * logits).mean(axis=-1)
    return losses


LOSSES: dict[str, Callable[[Array, Array], Array]] = {
    "cross_entropy": cross_entropies,
    "mean_squared_error": squared_errors,
    "huber": huber_losses,
    "binary_cross_entropy": binary_cross_entropies,
}


def predictions(loss: str, logits: Array) -> Array | None:
    """What the logits predict, in the form of the labels; None where it is a number.

    A class for each label, or for each output whether it is above 0.
    """
    if loss in ("mean_squared_error", "huber"):
        return None
    return logits.argmax(axis=-1) if loss == "cross_entropy" else (logits > 0).astype(np.int32)
