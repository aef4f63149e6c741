import dataclasses
from collections.abc import Callable

import pytest

from suite.errors import UsageError
from suite.protocol.plan import Plan


def test_runs_are_interleaved_in_rounds_in_a_seeded_order(quick: Callable[..., Plan]) -> None:
    plan = quick(repeats=3)
    rounds = [plan.runs[start : start + 4] for start in (0, 4, 8)]
    for repeat, runs in enumerate(rounds):
        assert {run.repeat for run in runs} == {repeat}
        assert {run.trial.framework for run in runs} == {"pytorch", "tensorflow", "jax", "mxnet"}
    orders = [[run.trial.framework for run in runs] for runs in rounds]
    assert orders[0] != orders[1] or orders[1] != orders[2]
    assert plan == quick(repeats=3)


def test_only_the_first_run_goes_through_whole_epochs(quick: Callable[..., Plan]) -> None:
    assert [run.epochs for run in quick("jax", repeats=3).runs] == [1, 0, 0]


def test_the_first_variant_is_the_default_and_others_are_named(quick: Callable[..., Plan]) -> None:
    plan = quick("pytorch", "pytorch:compiled", "pytorch")
    assert [trial.variant for trial in plan.trials] == ["eager", "compiled"]
    assert len({trial.trial_id for trial in plan.trials}) == 2


def test_unknown_names_are_refused_with_the_nearest(quick: Callable[..., Plan]) -> None:
    with pytest.raises(UsageError, match="unknown framework 'pytorhc'; nearest: 'pytorch'"):
        quick("pytorhc")
    with pytest.raises(UsageError, match="unknown variant of pytorch 'compile'; nearest: 'comp"):
        quick("pytorch:compile")


def test_a_plan_is_frozen(quick: Callable[..., Plan]) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        quick().suite = "other"  # type: ignore[misc]


def test_in_turns_the_runs_of_a_workload_are_together_and_else_each_is_alone(
    quick: Callable[..., Plan],
) -> None:
    plan = quick(repeats=2)
    assert [len(group) for group in plan.groups] == [1] * 8
    groups = dataclasses.replace(plan, turns=True).groups
    assert [len(group) for group in groups] == [4, 4]
    assert [group[0].repeat for group in groups] == [0, 1]


def test_each_framework_is_in_each_track_with_the_variant_that_is_usual_there(
    quick: Callable[..., Plan],
) -> None:
    plan = quick("pytorch", "jax", tracks=("equal", "tuned"))
    found = [trial.configuration for trial in plan.trials]
    assert found == ["pytorch:eager", "jax:jit", "pytorch:channels_last/tuned", "jax:matmul/tuned"]
    assert len({trial.trial_id for trial in plan.trials}) == 4
    assert [trial.runtime.tf32 for trial in plan.trials] == [False, False, True, True]


def test_a_track_and_a_variant_that_are_named_stay_as_they_are(quick: Callable[..., Plan]) -> None:
    plan = quick("pytorch:eager/tuned", "pytorch/tuned", tracks=("equal", "default"))
    assert [trial.configuration for trial in plan.trials] == [
        "pytorch:eager/tuned",
        "pytorch:channels_last/tuned",
    ]
    with pytest.raises(UsageError, match="unknown track 'tund'; nearest: 'tuned'"):
        quick("pytorch/tund")


def test_in_turns_all_tracks_of_a_workload_are_together(quick: Callable[..., Plan]) -> None:
    plan = dataclasses.replace(quick("jax", tracks=("equal", "tuned")), turns=True)
    assert [len(group) for group in plan.groups] == [2]
