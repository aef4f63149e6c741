"""The colors of frameworks: apart for all kinds of color vision, and visible on both pages.

The simulation is that of Machado, Oliveira and Fernandes 2009 (severity 1.0); the distance is that
of CIE 1976 L*a*b*.
"""

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from suite.manifests import catalog
from suite.paths import REPOSITORY
from suite.report.figures import colors

VISION = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = np.array([0.95047, 1.0, 1.08883])
PAGES = ("#ffffff", "#16181d")  # light and dark, as in style.css
Vector = NDArray[np.float64]


def linear(color: str) -> Vector:
    values = np.array([int(color[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(values: Vector) -> Vector:
    ratio = TO_XYZ @ np.clip(values, 0, 1) / WHITE
    x, y, z = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(one: str, other: str) -> float:
    low, high = sorted(float(TO_XYZ[1] @ linear(color)) for color in (one, other))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("vision", VISION)
def test_colors_are_apart(vision: str) -> None:
    """A distance of 2.3 is just noticeable."""
    seen = [lab(VISION[vision] @ linear(color)) for color in colors.COLORS.values()]
    assert min(np.linalg.norm(one - other) for one, other in combinations(seen, 2)) > 10


@pytest.mark.parametrize("page", PAGES)
def test_colors_are_visible_on_both_pages(page: str) -> None:
    styles = REPOSITORY / "suite" / "report" / "html" / "templates" / "style.css"
    assert f"--surface: {page};" in styles.read_text(encoding="utf-8")
    assert min(contrast(color, page) for color in (*colors.COLORS.values(), colors.OTHER)) >= 3


def test_every_framework_has_a_color_and_a_shape_of_its_own() -> None:
    names = {framework.name for framework in catalog.frameworks().values()}
    assert names == colors.COLORS.keys() == colors.SHAPES.keys()
    assert len({*colors.SHAPES.values()}) == len(names)


def test_a_framework_has_the_same_color_beside_any_others() -> None:
    def of_jax(*frameworks: str) -> str:
        scale = colors.framework_color(frameworks)["scale"]
        return dict(zip(scale["domain"], scale["range"], strict=True))["jax"]

    assert of_jax("jax") == of_jax("pytorch", "jax", "jax", "an_added_one") == colors.COLORS["jax"]
