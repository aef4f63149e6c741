import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from suite.parity.errors import Errors
from suite.parity.tensors import OWN_LOSS
from suite.parity.tolerances import (
    RULES,
    Judged,
    judge,
    loss_in_bfloat16,
    too_accurate,
    worst,
)

FLOAT32, TF32, BF16 = RULES["float32"], RULES["tf32"], RULES["bf16_mixed"]
GOOD, BAD = {"logits": 1e-6, "gradients a": 1e-6}, {"logits": 1e-6, "gradients a": 2e-4}


def judged(errors: Errors, *, tolerance: float = FLOAT32.tolerance) -> Judged:
    return Judged(errors=errors, raised=[], tolerance=tolerance)


@dataclass
class FixedReference:
    """A reference with fixed tolerances of float32: with one draw, with four, with all."""

    one: Errors
    four: Errors | None = None
    sixteen: Errors | None = None
    draws: int = 0  # of the last call

    def __call__(self, draws: int) -> Errors:
        self.draws = draws
        four = self.four or self.one
        return {1: self.one, 4: four, 16: self.sixteen or four}[draws]


def test_every_step_is_judged() -> None:
    assert judged([GOOD, GOOD]).verdict is None
    assert judged([GOOD, BAD, GOOD]).verdict == (
        "step 1: gradients a: relative error 2.0e-04 exceeds the tolerance 1e-04"
    )
    assert judged([{"logits": math.nan}]).verdict is not None
    assert worst([GOOD, BAD]) == {"logits": 1e-6, "gradients": 2e-4}
    assert judged([GOOD, BAD]).share == pytest.approx(2)


def test_products_in_tf32_have_a_tolerance_of_their_own() -> None:
    off = [{"logits": 5e-3}]
    assert judged(off).verdict is not None
    assert judged(off, tolerance=TF32.tolerance).verdict is None
    found = judge([{"logits": 2e-2}], FixedReference([{"logits": 2e-3}]), TF32)
    assert found.raised == [{}]
    assert "exceeds the tolerance 1e-02" in str(found.verdict)
    assert (TF32.rounding, TF32.perturbed, TF32.two_sided) == ("tf32_simulated",) * 2 + (False,)


def test_a_tolerance_is_raised_only_where_float32_itself_loses_more() -> None:
    step = {"logits": 1e-6, "gradients a": 3e-4}
    found = judge([BAD, BAD], FixedReference([step, step]), FLOAT32)
    assert found.raised == [{"gradients a": pytest.approx(3e-4)}] * 2
    assert found.verdict is None
    assert found.share == pytest.approx(2 / 3)
    other = replace(found, errors=[{"logits": 2e-4, "gradients a": 0}])
    assert other.verdict is not None


def test_the_tolerance_of_an_early_update_is_not_that_of_later_ones() -> None:
    """The first step of Adam is the sign of the gradient, which the rounding may turn."""
    names = {"logits": 1e-6, "gradients a": 3e-4}
    rounding = [names | {"updates a": error} for error in (1.2, 0.1, 0.3)]
    found = judge([names | {"updates a": 1.0}] * 3, FixedReference(rounding), FLOAT32)
    assert [step["updates a"] for step in found.raised] == [1.2, 0.3, 0.3]
    assert "step 1: updates a: relative error 1.0e+00 exceeds" in str(found.verdict)
    assert found.raised[0]["gradients a"] == 3e-4


def test_the_tolerance_of_stored_weights_is_that_of_its_step_and_later_ones() -> None:
    off = {"logits": 0.0, "updates a": 2.0}
    rounding = [{"logits": 9e-2, "updates a": 0.0}] * 2
    least = [{"updates a": math.inf}, {"updates a": 1.0}]
    found = judge([off] * 2, FixedReference(rounding), TF32, least=least)
    assert found.verdict == (
        "step 1: updates a: relative error 2.0e+00 exceeds the tolerance 1e+00"
    )
    assert judge([off], FixedReference(rounding[:1]), TF32, least=least[:1]).verdict is None


def test_no_further_draws_are_computed_where_rounding_errors_explode_at_once() -> None:
    exploding = FixedReference([{"logits": 1.0, "gradients a": 1.0}])
    found = judge([BAD], exploding, FLOAT32)
    assert found.errors == [] and found.verdict is not None
    assert exploding.draws == 1


def test_float32_is_not_computed_where_all_errors_are_within_the_common_tolerance() -> None:
    unused = FixedReference([])
    assert judge([GOOD], unused, FLOAT32) == judged([GOOD])
    assert unused.draws == 0


def test_there_are_more_draws_where_one_does_not_explain_an_error() -> None:
    small, large = {"logits": 1e-6, "gradients a": 1e-6}, {"logits": 1e-6, "gradients a": 1e-3}
    jump = [GOOD | {"gradients a": 9e-4}] * 3
    assert judge(jump, FixedReference([small] * 3, [large] * 3), FLOAT32).verdict is None
    assert judge(jump, FixedReference([small] * 3, [small] * 3), FLOAT32).verdict is not None


def test_there_are_all_draws_only_where_the_excess_is_small() -> None:
    small, near, far = ({"logits": 1e-6, "gradients a": error} for error in (1e-6, 3e-4, 2e-4))
    jump = [GOOD | {"gradients a": 9e-4}]
    explained = FixedReference([small], [near], [{"logits": 1e-6, "gradients a": 1e-3}])
    assert judge(jump, explained, FLOAT32).verdict is None
    unexplained = FixedReference([small] * 2, [far] * 2)
    # A later step shows the consequences of the first excess, which are larger.
    assert judge([*jump, GOOD | {"gradients a": 1.0}], unexplained, FLOAT32).verdict is not None
    assert unexplained.draws == 16
    assert judge([GOOD | {"gradients a": 9e-3}], unexplained, FLOAT32).verdict is not None
    assert unexplained.draws == 4


def test_the_steps_after_a_kink_are_not_judged() -> None:
    """Gradients jump in a random step, as those of perturbed weights do in another one."""
    kink, later = {"logits": 1e-6, "gradients a": 9e-3}, {"logits": 5e-4, "gradients a": 5e-4}
    known = FixedReference([GOOD, GOOD, GOOD | {"gradients a": 2e-2}])
    found = judge([GOOD, kink, later], known, FLOAT32)
    assert found.verdict is None and len(found.errors) == 2
    for other in (
        [kink, later, later],  # in the first step it is a fault
        [GOOD, kink | {"logits": 5e-4}, later],  # the logits do not jump in the same step
        [GOOD, kink | {"gradients a": 5e-2}, later],  # more than perturbed weights show
        [GOOD, later, later],
    ):
        assert judge(other, known, FLOAT32).verdict is not None


def test_steps_in_which_rounding_errors_explode_prove_nothing() -> None:
    fine, exploded = {"logits": 1e-4, "gradients a": 1e-3}, {"logits": 2e-2, "gradients a": 5}
    found = judge([BAD, BAD, BAD], FixedReference([fine, exploded, fine]), FLOAT32)
    assert len(found.errors) == len(found.raised) == 1
    found = judge([BAD], FixedReference([exploded]), FLOAT32)
    assert "nothing can be compared" in str(found.verdict)


def test_the_logits_of_bfloat16_are_neither_too_inaccurate_nor_too_accurate() -> None:
    simulated = {"logits": 4e-3}
    assert judge([{"logits": 3e-2}], FixedReference([simulated]), BF16).verdict is None
    assert judge([{"logits": 5e-2}], FixedReference([simulated]), BF16).verdict is not None
    assert too_accurate({"logits": 2e-3}, simulated, {}) is None
    for error in (5e-4, 1e-7):  # float16, float32
        assert "not rounded to bfloat16" in str(too_accurate({"logits": error}, simulated, {}))


def test_a_timed_step_in_float32_is_found_beside_logits_in_bfloat16() -> None:
    simulated = {"logits": 4e-3, "updates a": 1e-2, "updates b": 1e-2, "updates zero": 0.0}
    storage = {"updates a": 1e-4, "updates b": 1e-4, "updates zero": 1e-9}
    in_bfloat16 = {"logits": 4e-3, "updates a": 1e-2, "updates b": 5e-3, "updates zero": 0.0}
    assert too_accurate(in_bfloat16, simulated, storage) is None
    in_float32 = in_bfloat16 | {"updates a": 1e-6, "updates b": 1e-6}
    assert "the timed step does not round" in str(too_accurate(in_float32, simulated, storage))
    closing = {name: error for name, error in in_float32.items() if name != "logits"}
    assert "the timed step does not round" in str(too_accurate(closing, simulated, storage))
    hidden = dict.fromkeys(storage, 0.01)  # by the rounding of stored weights
    assert too_accurate(in_float32, simulated, hidden) is None
    chaotic = simulated | {"updates a": 0.15, "updates b": 80.0}
    assert too_accurate(in_bfloat16, chaotic, storage) is None
    one_of_two = chaotic | {"updates b": 1e-2}
    assert "the timed step does not round" in str(too_accurate(in_float32, one_of_two, storage))


def test_a_loss_in_bfloat16_is_found_by_its_digits() -> None:
    in_float32, in_bfloat16 = ({"loss": np.array(loss)} for loss in (2.3017, 2.296875))
    assert loss_in_bfloat16([in_bfloat16, in_float32]) is None
    assert "is a bfloat16 number" in str(loss_in_bfloat16([in_bfloat16] * 2))
    # The mean of two ranks has a bit more.
    ranks = [{"loss": np.array(2.3046875), OWN_LOSS: np.array(own)} for own in (2.296875, 2.3125)]
    assert "is a bfloat16 number" in str(loss_in_bfloat16(ranks))
