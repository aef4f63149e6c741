"""Changes of a tensor's axes in ONNX: series of them that are one layer, or none.

The forms are those of pytorch_shapes.Form: last, flat, grouped, shuffled.
"""

from __future__ import annotations

import math
from typing import Any

from .common import Layer

Shape = tuple[int, ...]
Form = tuple[str, int]  # its name, and the number of groups
PLAIN: Form = ("", 0)
# Operators that compute the same at each position of an image with channels last.
POINTWISE = (
    *("Relu", "Tanh", "Sigmoid", "HardSwish", "HardSigmoid", "Clip", "LeakyRelu", "Gelu"),
    *("Add", "Mul", "Dropout", "Identity", "LayerNormalization", "MatMul"),
)


def changed(
    operator: str, options: dict[str, Any], form: Form, before: Shape, after: Shape
) -> tuple[Layer | None, Form] | None:
    """The layer and the form of a change of axes; None where the operator is no such change."""
    if operator == "Transpose":
        return _turned([*options["perm"]], form, before)
    if operator not in ("Reshape", "Flatten", "Squeeze"):
        return None
    if form[0] == "shuffled" and len(after) == 3:
        return {"kind": "channel_shuffle", "groups": form[1]}, PLAIN
    if form == PLAIN and len(before) == 3:
        channels, *size = before
        if after == (channels, math.prod(size)):
            return None, ("flat", 0)
        if len(after) == 4 and list(after[2:]) == size:
            return None, ("grouped", after[0])
    return None


def _turned(order: list[int], form: Form, before: Shape) -> tuple[Layer | None, Form] | None:
    if form == PLAIN and len(before) == 3 and order == [0, 2, 3, 1]:
        return None, ("last", 0)
    if form[0] == "last" and order == [0, 3, 1, 2]:
        return None, PLAIN
    if form[0] == "flat" and order == [0, 2, 1]:
        return {"kind": "tokens"}, PLAIN
    if form[0] == "grouped" and order == [0, 2, 1, 3, 4]:
        return None, ("shuffled", form[1])
    return None
