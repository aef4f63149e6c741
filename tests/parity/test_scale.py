"""Updates that are slightly too long are found, although they are within the tolerances."""

from collections.abc import Callable

import numpy as np
import pytest

from suite.parity.certificates import untested
from suite.parity.replay import StateReference
from suite.parity.scale import wrong_scale
from suite.parity.tolerances import RULES
from tests.parity.replays import FLOAT32, tensors

BF16 = RULES["bf16_mixed"]


@pytest.mark.parametrize("factor", [1.001, 0.999])
def test_a_slightly_wrong_rate_is_found(
    reference: Callable[..., StateReference], factor: float
) -> None:
    known = reference(tensors(0.01))
    assert wrong_scale([tensors(0.01)], known, FLOAT32) is None
    assert wrong_scale([tensors(0.01 * 1.00005)], known, FLOAT32) is None
    found = str(wrong_scale([tensors(0.01), tensors(0.01 * factor)], known, FLOAT32))
    assert f"the updates are {factor:.4f} times as long as those of the reference" in found


def test_updates_may_be_as_short_as_the_simulated_rounding_makes_them(
    reference: Callable[..., StateReference],
) -> None:
    known = reference(tensors(0.01))
    shortened = tensors(0.01 * 0.99)
    assert wrong_scale([shortened], known, BF16)
    known._store(("pytorch", "eager"), "bf16_simulated", 0, [tensors(0.01 * 0.988)])
    assert wrong_scale([shortened], known, BF16) is None
    assert wrong_scale([tensors(0.01 * 0.997)], known, BF16) is None  # between 1 and 0.988
    for factor in (1.01, 0.98):
        assert wrong_scale([tensors(0.01 * factor)], known, BF16)


def test_chaos_between_steps_widens_the_limit(
    reference: Callable[..., StateReference],
) -> None:
    found = [tensors(0.01 * 0.9995)]
    assert "0.9995 times" in str(wrong_scale(found, reference(tensors(0.01)), FLOAT32))
    chaotic = reference(tensors(0.01), perturbed=tensors(0.01 * 1.0002))
    chaotic._store(("pytorch", "eager"), "float32", 0, [tensors(0.01)])
    assert wrong_scale(found, chaotic, FLOAT32) is None  # the limit is 1e-4 + 3 x 2e-4
    for factor in (1.0008, 0.9992):
        assert wrong_scale([tensors(0.01 * factor)], chaotic, FLOAT32)


def test_hidden_updates_have_no_scale(reference: Callable[..., StateReference]) -> None:
    assert wrong_scale([tensors(0.02)], reference(tensors(0.01), stored=9.0), FLOAT32) is None
    # The storage's rounding adds to the limit: 3 x 0.4 / 10 / sqrt(4) = 0.06.
    noisy = reference(tensors(0.01), stored=0.4)
    assert wrong_scale([tensors(0.01 * 1.05)], noisy, FLOAT32) is None
    assert wrong_scale([tensors(0.01 * 1.07)], noisy, FLOAT32)


def test_a_gradient_that_is_zero_in_all_steps_is_not_tested() -> None:
    zero, some = np.zeros(3), np.ones(3)
    steps = [{"gradients a": zero, "gradients b": some, "updates a": zero}]
    assert "the gradients a are 0 in all compared steps, and so are 1 of 2" in str(untested(steps))
    assert untested([*steps, {"gradients a": some, "gradients b": zero}]) is None
    assert untested([{"logits": zero}]) is None
