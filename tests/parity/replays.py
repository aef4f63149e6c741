"""Outcomes of steps, for tests of the closing proof."""

import numpy as np

from suite.parity.tensors import Tensors
from suite.parity.tolerances import RULES

FLOAT32 = RULES["float32"]


def tensors(update: float, *, loss: float = 1.0) -> Tensors:
    """Of a model with one weight tensor; its update is `update` in each of four values."""
    values = np.full(4, update)
    return {"loss": np.asarray(loss), "weights a": 1 + values, "updates a": values}
