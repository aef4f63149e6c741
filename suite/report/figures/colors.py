"""The color and the shape of each framework, the same in all figures.

The colors are apart for readers with protanopia, deuteranopia and tritanopia
(tests/report/figures/test_colors.py), and have a contrast of at least 3 with a white and with a
dark page (WCAG 2.2, 1.4.11). Shapes repeat what they say.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

# Vega has no more shapes of its own.
STAR = "M0,-1L.29,-.4L.95,-.31L.48,.15L.59,.81L0,.5L-.59,.81L-.48,.15L-.95,-.31L-.29,-.4Z"
HEXAGON = "M0,-1L.87,-.5L.87,.5L0,1L-.87,.5L-.87,-.5Z"
PENTAGON = "M0,-1L.95,-.31L.59,.81L-.59,.81L-.95,-.31Z"
PLUS = "M-.3,-1H.3V-.3H1V.3H.3V1H-.3V.3H-1V-.3H-.3Z"
HOURGLASS = "M-.85,-1H.85L0,0L.85,1H-.85L0,0Z"
COLORS = {
    "caffe": "#F343F0",
    "cntk": "#B40CB4",
    "cudnn": "#527A77",
    "flux": "#F6594A",
    "jax": "#3B7DD8",
    "keras": "#CC79A7",
    "mxnet": "#009E73",
    "onednn": "#869A56",
    "onnxruntime": "#BE0096",
    "openvino": "#8C14FA",
    "paddle": "#8C564B",
    "pytensor": "#6E46DC",
    "pytorch": "#C0392B",
    "tensorflow": "#B08A00",
    "theano": "#B97EC8",
}
SHAPES = {
    "caffe": PLUS,
    "cntk": HOURGLASS,
    "cudnn": STAR,
    "flux": PENTAGON,
    "jax": "square",
    "keras": "triangle-up",
    "mxnet": "diamond",
    "onednn": "arrow",
    "onnxruntime": "triangle-left",
    "openvino": "triangle-right",
    "paddle": "triangle-down",
    "pytensor": "wedge",
    "pytorch": "circle",
    "tensorflow": "cross",
    "theano": HEXAGON,
}
COLUMNS = 4  # of a legend, so that it is not wider than its figure
OTHER, OTHER_SHAPE = "#7A7A7A", "stroke"  # of a framework that is added later
TEXT, GRID, SURFACE = "#1b1f24", "#d5d9de", "#ffffff"  # the page replaces them by its own


def framework_color(frameworks: Iterable[str], *, legend: bool = False) -> dict[str, Any]:
    """The encoding of color by the field `framework`."""
    return _by_framework(frameworks, COLORS, OTHER, legend)


def framework_shape(frameworks: Iterable[str], *, legend: bool = False) -> dict[str, Any]:
    """The encoding of shape by the field `framework`."""
    return _by_framework(frameworks, SHAPES, OTHER_SHAPE, legend)


def _by_framework(
    frameworks: Iterable[str], known: dict[str, str], other: str, legend: bool
) -> dict[str, Any]:
    names = sorted(set(frameworks))
    scale = {"domain": names, "range": [known.get(name, other) for name in names]}
    shown = {"orient": "top", "title": None, "columns": COLUMNS} if legend else None
    return {"field": "framework", "type": "nominal", "legend": shown, "scale": scale}
