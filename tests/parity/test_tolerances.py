import math
from dataclasses import dataclass, replace

import pytest

from suite.parity.reference import Errors
from suite.parity.tolerances import Judged

FLOAT32 = tolerances.TOLERANCES["float32"]
GOOD, BAD = {"logits": 1e-6, "gradients a": 1e-6}, {"logits": 1e-6, "gradients a": 2e-4}


def found(errors: Errors, *, tolerance: float = FLOAT32) -> Judged:
    return Judged(errors=errors, raised=[], tolerance=tolerance)


def test_every_step_is_judged_not_the_last_one() -> None:
    assert found([GOOD, GOOD]).verdict is None
    assert found([GOOD, BAD, GOOD]).verdict == (
        "step 1: gradients a is off by 2.0e-04, more than 1e-04"
    )
    assert found([{"logits": math.nan}]).verdict is not None
    assert tolerances.worst([GOOD, BAD]) == {"logits": 1e-6, "gradients": 2e-4}
    assert found([GOOD, BAD]).share == pytest.approx(2)


def test_what_multiplies_in_tf32_is_judged_by_its_rounding() -> None:
    off = [{"logits": 5e-3}]
    assert found(off).verdict is not None
    assert found(off, tolerance=tolerances.TOLERANCES["tf32"]).verdict is None
    loses_less = Known([{"logits": 2e-3}])
    judged = tolerances.judge([{"logits": 2e-2}], loses_less, tolerances.TOLERANCES["tf32"])
    assert judged.raised == [{}] and "more than 1e-02" in str(judged.verdict)


@dataclass
class Known:
    """A reference of which only float32's tolerances matter: by one draw, by four, by all."""

    one: list[dict[str, float]]
    four: list[dict[str, float]] | None = None
    all: list[dict[str, float]] | None = None
    asked: int = 0

    def float32_tolerances(self, moves: int) -> list[dict[str, float]]:
        found = {1: self.one, 4: self.four or self.one, 16: self.all or self.four or self.one}
        self.asked = moves
        return found[moves]


def test_a_tolerance_is_raised_only_where_float32_itself_loses_more() -> None:
    step = {"logits": 1e-6, "gradients a": 3e-4}
    judged = tolerances.judge([BAD, BAD], Known([step, step]), FLOAT32)
    assert judged.raised == [{"gradients a": pytest.approx(3e-4)}] * 2
    assert judged.verdict is None
    assert judged.share == pytest.approx(2 / 3)
    other = replace(judged, errors=[{"logits": 2e-4, "gradients a": 0}])
    assert other.verdict is not None
    unasked = tolerances.judge([GOOD], Known([]), FLOAT32)  # then float32 is not asked
    assert unasked == found([GOOD])


def test_more_draws_are_asked_for_where_one_does_not_explain_an_error() -> None:
    calm, shaken = {"logits": 1e-6, "gradients a": 1e-6}, {"logits": 1e-6, "gradients a": 1e-3}
    jump = [GOOD | {"gradients a": 9e-4}] * 3
    assert tolerances.judge(jump, Known([calm] * 3, [shaken] * 3), FLOAT32).verdict is None
    assert tolerances.judge(jump, Known([calm] * 3, [calm] * 3), FLOAT32).verdict is not None


def test_all_draws_are_asked_for_only_where_little_is_missing() -> None:
    calm, near, far = ({"logits": 1e-6, "gradients a": error} for error in (1e-6, 3e-4, 2e-4))
    jump = [GOOD | {"gradients a": 9e-4}]
    explained = Known([calm], [near], [{"logits": 1e-6, "gradients a": 1e-3}])
    assert tolerances.judge(jump, explained, FLOAT32).verdict is None
    hopeless = Known([calm], [far])
    assert tolerances.judge(jump, hopeless, FLOAT32).verdict is not None
    assert hopeless.asked == 4


def test_steps_that_float32_itself_loses_show_nothing() -> None:
    fine, lost = {"logits": 1e-4, "gradients a": 1e-3}, {"logits": 2e-2, "gradients a": 5}
    judged = tolerances.judge([BAD, BAD, BAD], Known([fine, lost, fine]), FLOAT32)
    assert len(judged.errors) == len(judged.raised) == 1
    judged = tolerances.judge([BAD], Known([lost]), FLOAT32)
    assert "nothing can be shown" in str(judged.verdict)
