import numpy as np
import pytest

from suite.models import MODELS
from suite.parity import running_means
from suite.parity.tensors import Tensors

EPSILON = 2.0**-23
CHANNELS = 4


def after(steps: int, *, mean: float, deviation: float) -> Tensors:
    """The running statistics of `every_layer` after steps on batches with these moments."""
    kept = 0.9**steps
    norms = [layer for layer in MODELS["every_layer"]().leaves() if layer.kind == "batch_norm"]
    return {
        name: np.full(CHANNELS, value)
        for norm in norms
        for name, value in (
            (f"statistics {norm.name}.mean", (1 - kept) * mean),
            (f"statistics {norm.name}.variance", kept + (1 - kept) * deviation**2),
        )
    }


def test_the_error_of_a_mean_is_relative_to_the_standard_deviation() -> None:
    """After one step and after five, each of them like the first."""
    model = MODELS["every_layer"]()
    expected = [after(steps, mean=0.02, deviation=1.5) for steps in range(1, 6)]
    found = running_means.tolerances(expected, model, 16)
    assert model.batch_norm_positions > 0
    wanted = np.sqrt(16 * model.batch_norm_positions) * EPSILON * 1.5 / 0.02
    for step in found[0], found[4]:
        assert step and [*step.values()] == pytest.approx([wanted] * len(step))
    (of_micro_batches,) = running_means.tolerances(expected[4:], model, 16, updates=5)
    assert of_micro_batches == found[4]


def test_a_wrong_momentum_is_beyond_the_tolerance() -> None:
    """0.099 in place of 0.1, on the first convolution of normalized images: an error of 1 %."""
    expected = [after(1, mean=0.05, deviation=1.0)]
    (step,) = running_means.tolerances(expected, MODELS["every_layer"](), 64)
    assert max(step.values()) < 0.01


def test_a_mean_of_zero_has_an_absolute_tolerance_and_inference_has_none() -> None:
    model = MODELS["every_layer"]()
    (step,) = running_means.tolerances([after(1, mean=0.0, deviation=1.0)], model, 16)
    assert all(0 < value < 1e-3 for value in step.values())
    assert running_means.tolerances([{"logits": np.ones(3)}], model, 16) == [{}]
