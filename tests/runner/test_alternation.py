"""Where a suite's `interleave: cpu` makes a plan interleaved."""

import pytest

from suite.runner.alternation import alternating
from suite.runner.planning import plan_of
from suite.runner.run_options import RunOptions

GIB = 2**30


def test_the_quick_suite_is_interleaved_on_a_cpu_with_enough_memory() -> None:
    plan = plan_of("quick", RunOptions(interleave=False), device="cpu")
    assert not plan.interleave and plan.repeats.at_least == 8
    assert alternating(plan, 16 * GIB).interleave
    small = alternating(plan, 4 * GIB)
    assert not small.interleave
    assert small.notes[-1].startswith("not interleaved: 6 workers at once need about 7 GiB, this")


@pytest.mark.parametrize(
    ("options", "device"),
    [
        (RunOptions(repeats=4), "cpu"),
        (RunOptions(frameworks=("mxnet",)), "cpu"),
        (RunOptions(devices=("cpu:2",)), "cpu:2"),
        (RunOptions(), "cuda:1"),
        (RunOptions(interleave=False), "cpu"),
    ],
)
def test_trials_that_cannot_alternate_run_one_after_the_other(
    options: RunOptions, device: str
) -> None:
    plan = plan_of("quick", options, device=device)
    assert not plan.interleave and not [note for note in plan.notes if "interleaved" in note]


def test_the_user_can_ask_for_it_with_any_number_of_runs() -> None:
    assert plan_of("quick", RunOptions(interleave=True, repeats=2), device="cpu").interleave
