"""JAX's convolutions and max pooling by matrix products equal those of lax and Flax."""

from pathlib import Path

import pytest

from tests.worker.conftest import in_environment

# The cases differ in rows and columns, have uneven padding, and windows that leave a remainder.
COMPARE = """
import jax, numpy as np
jax.config.update("jax_enable_x64", True)
from flax import nnx
from jax import lax, numpy as jnp
from suite.worker.frameworks.jax import matmul

rng = np.random.default_rng(0)

def same(ours, theirs, *values):
    found, pull_back = jax.vjp(ours, *values)
    expected, pull_back_theirs = jax.vjp(theirs, *values)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    gradient = jnp.asarray(rng.normal(size=found.shape))
    for one, other in zip(pull_back(gradient), pull_back_theirs(gradient), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)

none, one, uneven = [(0, 0), (0, 0)], [(1, 1), (1, 1)], [(2, 1), (0, 1)]
for kernel, strides, padding in [
    ((1, 1), (1, 1), none), ((1, 1), (2, 2), none), ((1, 1), (2, 1), one),
    ((3, 3), (1, 1), one), ((3, 3), (2, 2), one), ((5, 3), (2, 1), uneven), ((4, 2), (3, 2), none),
]:
    images, weight = rng.normal(size=(2, 9, 8, 3)), rng.normal(size=(*kernel, 3, 4))
    layout = {"dimension_numbers": ("NHWC", "HWIO", "NHWC")}
    for ours in matmul.convolve, matmul.convolve_by_rows:
        same(
            lambda x, w: ours(x, w, strides, padding, **layout),
            lambda x, w: lax.conv_general_dilated(x, w, strides, padding, **layout),
            images, weight,
        )
for window, strides, padding in [
    ((2, 2), (2, 2), none), ((3, 3), (2, 2), one), ((3, 2), (2, 1), [(0, 1), (1, 0)]),
]:
    # With only three different values, most windows have their maximum twice.
    images = rng.integers(-3, 0, size=(2, 9, 8, 3)).astype(float)
    same(
        lambda x: matmul.max_pool(x, window, strides, padding),
        lambda x: nnx.max_pool(x, window, strides, padding),
        images,
    )
print("compared")
"""


@pytest.mark.verify
def test_values_and_gradients_equal_those_of_the_plain_operations(tmp_path: Path) -> None:
    assert in_environment("jax", COMPARE, folder=tmp_path) == "compared\n"
