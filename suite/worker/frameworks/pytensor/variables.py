"""Variables of PyTensor's graphs."""

from __future__ import annotations

from typing import Any

import pytensor

from ...protocol import Weights


def shared(values: Weights, dtype: str) -> dict[str, Any]:
    """A shared variable for each array, whose shape the compiler knows."""
    return {
        name: pytensor.shared(each.astype(dtype), name, shape=each.shape)
        for name, each in values.items()
    }


def along(vector: Any, values: Any) -> Any:
    """The vector along the first axis of `values`, ready to be added or multiplied."""
    return vector.dimshuffle(0, *["x"] * (values.ndim - 1))
