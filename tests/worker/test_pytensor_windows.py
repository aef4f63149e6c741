"""PyTensor's convolution and pooling by selected rows equal sums and maxima over each window."""

from pathlib import Path

from tests.worker.conftest import in_environment

# The cases differ in rows and columns, have padding, and windows that leave a remainder. Most
# windows have their maximum twice: only the first of them has a gradient.
COMPARE = """
import numpy as np
from suite.worker.frameworks.pytensor import windows
import pytensor, pytensor.tensor as pt

rng = np.random.default_rng(0)

def padded(layer, fill):
    pads = [(0, 0), *((each, each + 9 * layer.get("ceil", False)) for each in layer["padding"])]
    return np.pad(images, [*pads, (0, 0)], constant_values=fill)

def each_window(layer, shape):
    for row, column in np.ndindex(shape):
        top, left = row * layer["stride"][0], column * layer["stride"][1]
        height, width = layer["kernel"]
        yield row, column, np.s_[:, top : top + height, left : left + width]

def check(ours, layer, fill, forward, backward):
    source = padded(layer, fill)
    values = pt.tensor("values", shape=images.shape)
    result = ours(values)
    weights = rng.normal(size=result.type.shape)
    given = pt.tensor("given", shape=weights.shape)
    found, gradient = pytensor.function(
        [values, given], [result, pt.grad((result * given).sum(), values)], mode="FAST_COMPILE"
    )(images, weights)
    expected, expected_gradient = np.zeros_like(found), np.zeros_like(source)
    for row, column, window in each_window(layer, found.shape[1:3]):
        expected[:, row, column] = forward(source[window])
        expected_gradient[window] += backward(source[window], weights[:, row, column])
    (top, left), (_, height, width, _) = layer["padding"], images.shape
    inside = expected_gradient[:, top : top + height, left : left + width]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(gradient, inside, rtol=1e-12, atol=1e-12)

def first_maximum(window, weights):
    flat = window.reshape(len(window), -1, window.shape[-1])
    chosen = np.zeros_like(flat)
    np.put_along_axis(chosen, flat.argmax(1)[:, None], weights[:, None], 1)
    return chosen.reshape(window.shape)

for kernel, stride, padding, ceil in [
    ((1, 1), (1, 1), (0, 0), False), ((1, 1), (2, 1), (0, 0), False),
    ((3, 3), (2, 2), (1, 1), False), ((4, 2), (3, 2), (2, 0), False),
    ((2, 2), (2, 2), (0, 0), True),
]:
    layer = {"kernel": kernel, "stride": stride, "padding": padding, "input_shape": (3, 9, 8)}
    images = rng.integers(-3, 0, size=(3, 9, 8, 2)).astype(float)
    pool = {**layer, "ceil": ceil}
    check(
        lambda x: windows.max_pool(x, pool), pool, -np.inf, lambda w: w.max((1, 2)), first_maximum
    )
    if ceil:
        continue
    size = kernel[0] * kernel[1]
    check(
        lambda x: windows.avg_pool(x, layer), layer, 0, lambda w: w.mean((1, 2)),
        lambda w, g: np.ones_like(w) * g[:, None, None] / size,
    )
    weight = rng.normal(size=(4, 3, *kernel))
    check(
        lambda x: windows.convolve(x, pt.constant(weight), {**layer, "out_channels": 4}), layer, 0,
        lambda w: np.einsum("kchw,chwn->kn", weight, w),
        lambda w, g: np.einsum("kchw,kn->chwn", weight, g),
    )
print("compared")
"""


def test_values_and_gradients_equal_those_of_each_window(tmp_path: Path) -> None:
    assert in_environment("pytensor", COMPARE, folder=tmp_path) == "compared\n"
