import math
from dataclasses import dataclass

import pytest

from suite import judge

GOOD, BAD = {"logits": 1e-6, "gradients a": 1e-6}, {"logits": 1e-6, "gradients a": 2e-4}


def test_every_step_is_judged_not_the_last_one() -> None:
    assert judge.verdict([GOOD, GOOD], []) is None
    assert judge.verdict([GOOD, BAD, GOOD], []) == (
        "step 1: gradients a is off by 2.0e-04, more than 1e-04"
    )
    assert judge.verdict([{"logits": math.nan}], []) is not None
    assert judge.worst([GOOD, BAD]) == {"logits": 1e-6, "gradients": 2e-4}
    assert judge.share([GOOD, BAD], []) == pytest.approx(2)


@dataclass
class Known:
    """A reference of which only float32's tolerances matter: by one draw, and by all."""

    one: list[dict[str, float]]
    all: list[dict[str, float]] | None = None

    def float32_tolerances(self, moves: int) -> list[dict[str, float]]:
        return self.one if moves == 1 or self.all is None else self.all


def test_a_tolerance_is_raised_only_where_float32_itself_loses_more() -> None:
    step = {"logits": 1e-6, "gradients a": 3e-4}
    found = judge.judged([BAD, BAD], Known([step, step]))
    assert found.raised == [{"gradients a": pytest.approx(3e-4)}] * 2
    assert judge.verdict(found.errors, found.raised) is None
    assert judge.share(found.errors, found.raised) == pytest.approx(2 / 3)
    assert judge.verdict([{"logits": 2e-4, "gradients a": 0}], found.raised) is not None
    unasked = judge.judged([GOOD], Known([]))  # then float32 is not asked
    assert unasked == judge.Judged(errors=[GOOD], raised=[])


def test_more_draws_are_asked_for_where_one_does_not_explain_an_error() -> None:
    calm, shaken = {"logits": 1e-6, "gradients a": 1e-6}, {"logits": 1e-6, "gradients a": 1e-3}
    jump = [GOOD | {"gradients a": 9e-4}] * 3
    found = judge.judged(jump, Known([calm] * 3, [shaken] * 3))
    assert judge.verdict(found.errors, found.raised) is None
    found = judge.judged(jump, Known([calm] * 3, [calm] * 3))
    assert judge.verdict(found.errors, found.raised) is not None


def test_steps_that_float32_itself_loses_show_nothing() -> None:
    fine, lost = {"logits": 1e-4, "gradients a": 1e-3}, {"logits": 2e-2, "gradients a": 5}
    found = judge.judged([BAD, BAD, BAD], Known([fine, lost, fine]))
    assert len(found.errors) == len(found.raised) == 1
    found = judge.judged([BAD], Known([lost]))
    assert "nothing can be shown" in str(judge.verdict(found.errors, found.raised))
