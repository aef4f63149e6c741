"""Operators of signals (channels, length) in ONNX as those of images of height 1."""

from __future__ import annotations

from typing import Any

# The attributes with a number for each axis, and the height's.
OF_AXES = {"kernel_shape": 1, "strides": 1, "dilations": 1, "output_padding": 0}


def as_of_image(options: dict[str, Any]) -> dict[str, Any]:
    """The attributes of an operator of a signal as those of an image."""
    found = dict(options)
    for name, height in OF_AXES.items():
        if len(found.get(name, ())) == 1:
            found[name] = [height, *found[name]]
    if "pads" in found:
        found["pads"] = pads(found["pads"])
    return found


def pads(numbers: Any) -> list[int]:
    """Paddings of all starts, then of all ends, with those of the height."""
    given = [int(each) for each in numbers]
    if len(given) not in (2, 6):  # of the length; of batch, channels and length
        return given
    half = len(given) // 2
    starts, ends = given[:half], given[half:]
    return [*starts[:-1], 0, starts[-1], *ends[:-1], 0, ends[-1]]


def axes(numbers: Any, *, signal: bool) -> list[int]:
    """Axes as those of (batch, channels, height, width)."""
    rank = 3 if signal else 4
    found = [int(each) % rank for each in numbers]
    return [3 if signal and each == 2 else each for each in found]
