import dataclasses
from collections.abc import Callable
from dataclasses import replace

import pytest

from suite.errors import UsageError
from suite.manifests import catalog
from suite.manifests.workloads import Repeats
from suite.protocol.expansion import expand
from suite.protocol.plan import Plan


def test_each_round_has_one_run_of_every_trial_in_a_seeded_order(
    quick: Callable[..., Plan],
) -> None:
    names = "pytorch", "tensorflow", "jax", "mxnet"
    plan = quick(*names, repeats=3)
    rounds = [plan.runs[start : start + 4] for start in (0, 4, 8)]
    for repeat, runs in enumerate(rounds):
        assert {run.repeat for run in runs} == {repeat}
        assert {run.trial.framework for run in runs} == set(names)
    orders = [[run.trial.framework for run in runs] for runs in rounds]
    assert orders[0] != orders[1] or orders[1] != orders[2]
    assert plan == quick(*names, repeats=3)


def test_only_the_first_run_trains_whole_epochs(quick: Callable[..., Plan]) -> None:
    runs = quick("jax", repeats=3).runs
    trained = runs[0].trial.workload.model_copy(update={"epochs": 1})
    found = [replace(run, trial=replace(run.trial, workload=trained)).epochs for run in runs]
    assert found == [1, 0, 0]


def test_the_first_variant_is_the_default_and_others_are_named(quick: Callable[..., Plan]) -> None:
    plan = quick("pytorch", "pytorch:compiled", "pytorch")
    assert [trial.variant for trial in plan.trials] == ["eager", "compiled"]
    assert len({trial.trial_id for trial in plan.trials}) == 2


def test_an_unknown_name_is_refused_with_the_nearest(quick: Callable[..., Plan]) -> None:
    with pytest.raises(UsageError, match="unknown framework 'pytorhc'; nearest: 'pytorch'"):
        quick("pytorhc")
    with pytest.raises(UsageError, match="unknown variant of pytorch 'compile'; nearest: 'comp"):
        quick("pytorch:compile")


def test_a_plan_is_frozen(quick: Callable[..., Plan]) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        quick().suite = "other"  # type: ignore[misc]


def test_interleaved_runs_of_a_workload_form_a_group_and_other_runs_are_alone(
    quick: Callable[..., Plan],
) -> None:
    plan = quick("pytorch", "jax", "jax:matmul", "mxnet", repeats=2)
    assert [len(group) for group in plan.groups] == [1] * 8
    groups = dataclasses.replace(plan, interleave=True).groups
    assert [len(group) for group in groups] == [4, 4]
    assert [group[0].repeat for group in groups] == [0, 1]


def test_each_framework_is_in_each_track_with_its_default_variant_there(
    quick: Callable[..., Plan],
) -> None:
    plan = quick("pytorch", "jax", tracks=("equal", "tuned"))
    found = [trial.configuration for trial in plan.trials]
    assert found == ["pytorch:eager", "jax:jit", "pytorch:channels_last/tuned", "jax:matmul/tuned"]
    assert len({trial.trial_id for trial in plan.trials}) == 4
    assert [trial.runtime.tf32 for trial in plan.trials] == [False, False, True, True]


def test_inference_has_a_default_variant_of_its_own() -> None:
    suite = catalog.suite("inference").model_copy(update={"tracks": ("tuned",)})
    only = ("pytorch", "paddle", "jax", "mxnet")
    plan = expand(suite, catalog.frameworks(), catalog.tracks(), only=only)
    assert {trial.configuration for trial in plan.trials} == {
        "pytorch:compiled/tuned",
        "paddle:static/tuned",
        "jax:matmul/tuned",
        "mxnet:hybrid/tuned",
    }


def test_a_named_track_and_a_named_variant_are_kept(quick: Callable[..., Plan]) -> None:
    plan = quick("pytorch:eager/tuned", "pytorch/tuned", tracks=("equal", "default"))
    assert [trial.configuration for trial in plan.trials] == [
        "pytorch:eager/tuned",
        "pytorch:channels_last/tuned",
    ]
    with pytest.raises(UsageError, match="unknown track 'tund'; nearest: 'tuned'"):
        quick("pytorch/tund")


def test_interleaved_runs_of_all_tracks_form_one_group(quick: Callable[..., Plan]) -> None:
    plan = dataclasses.replace(quick("jax", tracks=("equal", "tuned")), interleave=True)
    assert [len(group) for group in plan.groups] == [2]


@pytest.fixture
def seeded() -> Callable[..., Plan]:
    """Plans the quick suite with three seeds from 5, for some frameworks."""

    def plan(*frameworks: str, repeats: int = 1) -> Plan:
        exactly = Repeats(at_least=repeats, at_most=repeats)
        changes = {"seed": 5, "seeds": 3, "repeats": exactly, "tracks": ("equal",)}
        suite = catalog.suite("quick").model_copy(update=changes)
        return expand(suite, catalog.frameworks(), catalog.tracks(), only=frameworks)

    return plan


def test_each_trial_has_each_seed_and_a_name_of_its_own(seeded: Callable[..., Plan]) -> None:
    plan = seeded("pytorch", "jax")
    found = [(trial.framework, trial.seed) for trial in plan.trials]
    assert sorted(found) == [(name, seed) for name in ("jax", "pytorch") for seed in (5, 6, 7)]
    assert len({run.name for run in plan.runs}) == 6
    assert plan.works == tuple((plan.workloads[0], seed) for seed in (5, 6, 7))
    assert not plan.for_accuracies  # its peak is measured, so its rates matter
    assert dataclasses.replace(plan, peak=False).for_accuracies
    assert not dataclasses.replace(plan, peak=False, trials=plan.trials[:1]).for_accuracies


def test_each_seed_has_rounds_of_its_own(seeded: Callable[..., Plan]) -> None:
    """A plan that is interrupted has complete results of the first seeds."""
    plan = seeded("pytorch", "jax", "mxnet", repeats=2)
    assert [run.trial.seed for run in plan.runs] == [*[5] * 3, *[6] * 3, *[7] * 3] * 2
    assert [run.repeat for run in plan.runs] == [0] * 9 + [1] * 9
    orders = [[run.trial.framework for run in plan.runs[at : at + 3]] for at in range(0, 18, 3)]
    assert {tuple(sorted(order)) for order in orders} == {("jax", "mxnet", "pytorch")}
    assert len({tuple(order) for order in orders}) > 1


def test_interleaved_runs_of_other_seeds_are_in_other_groups(seeded: Callable[..., Plan]) -> None:
    plan = dataclasses.replace(seeded("pytorch", "jax"), interleave=True)
    assert [[run.trial.seed for run in group] for group in plan.groups] == [[5, 5], [6, 6], [7, 7]]


def test_weak_scaling_gives_each_rank_a_batch(quick: Callable[..., Plan]) -> None:
    plan = quick("jax", devices=("cpu:1", "cpu:2"), scaling=("strong", "weak"))
    found = [(trial.device, trial.workload.batch_size) for trial in plan.trials]
    assert found == [("cpu:1", 64), ("cpu:2", 64), ("cpu:2", 128)]
    assert {trial.cpu_parts for trial in plan.trials} == {2}
    assert len({trial.trial_id for trial in plan.trials}) == 3
    assert [trial.slices for trial in plan.trials] == [1, 2, 2]


def test_a_device_without_a_number_has_all_cores(quick: Callable[..., Plan]) -> None:
    plan = quick("jax", devices=("cpu", "cpu:2"))
    assert [(trial.device, trial.cpu_parts) for trial in plan.trials] == [("cpu", 1), ("cpu:2", 2)]


def test_a_rank_has_as_many_cores_on_one_machine_as_on_several() -> None:
    suite = catalog.suite("quick").model_copy(update={"devices": ("cpu:1", "cpu:2", "cpu:2x2")})
    manifests, tracks = catalog.frameworks(), catalog.tracks()
    for separate, parts in ((False, 4), (True, 2)):
        plan = expand(suite, manifests, tracks, only=["jax"], separate_nodes=separate)
        assert {trial.cpu_parts for trial in plan.trials} == {parts}


def test_a_batch_that_the_ranks_cannot_divide_is_refused(quick: Callable[..., Plan]) -> None:
    with pytest.raises(UsageError, match="a batch of 64 is not divisible by 3 ranks") as refused:
        quick("jax", devices=("cpu:3",))
    assert refused.value.hint == "--batch-size 63"


def test_loaders_are_not_interleaved() -> None:
    suite = catalog.suite("imagenet").model_copy(update={"interleave": True})
    with pytest.raises(UsageError, match="input loader cannot be interleaved"):
        expand(suite, catalog.frameworks(), catalog.tracks(), only=["jax"])
    several = catalog.suite("imagenet").model_copy(update={"inputs": ("host", "loader")})
    of_inputs = several.model_copy(update={"interleave": True})
    with pytest.raises(UsageError, match="input loader cannot be interleaved"):
        expand(of_inputs, catalog.frameworks(), catalog.tracks(), only=["jax"])


def test_ranks_are_not_interleaved(quick: Callable[..., Plan]) -> None:
    with pytest.raises(UsageError, match="cannot be interleaved"):
        quick("jax", devices=("cpu:2",), interleave=True)
