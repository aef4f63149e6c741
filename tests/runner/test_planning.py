"""The options of the command line, applied to a suite."""

from dataclasses import replace
from typing import Any

import pytest

from suite.errors import ManifestError, UsageError
from suite.manifests import catalog
from suite.runner.planning import RunOptions, plan_of


@pytest.mark.parametrize(
    ("option", "value", "minimum"),
    [
        ("--batch-size", 0, 1),
        ("--epochs", -1, 0),
        ("--repeats", 0, 1),
        ("--proof-steps", 0, 1),
        ("--seeds", 1, 2),
    ],
)
def test_a_number_below_its_minimum_is_refused(option: str, value: int, minimum: int) -> None:
    name = option.removeprefix("--").replace("-", "_")
    changes: dict[str, Any] = {name: value}
    with pytest.raises(UsageError) as caught:
        plan_of("quick", RunOptions(**changes), device="cpu")
    assert str(caught.value) == f"{option} is {value}; the minimum is {minimum}"
    assert caught.value.hint == f"{option} {minimum}"
    replace(RunOptions(), **{name: minimum}).check()


def test_without_options_the_plan_is_that_of_the_suite() -> None:
    suite, plan = catalog.suite("quick"), plan_of("quick", RunOptions(), device="cpu")
    assert plan.suite == "quick"
    assert plan.workloads == suite.workloads
    assert plan.frameworks == ("pytorch", "tensorflow", "jax", "mxnet")
    assert (plan.repeats, plan.proof_steps) == (suite.repeats, suite.proof_steps)
    assert (plan.interleave, plan.verify_runs) == (suite.interleave, suite.verify_runs)
    assert {trial.track for trial in plan.trials} == {"equal", "tuned"}
    assert {trial.device for trial in plan.trials} == {"cpu"}


def test_options_change_the_plan() -> None:
    options = RunOptions(
        frameworks=("pytorch:compiled", "jax"),
        tracks=("tuned", "equal", "tuned"),
        batch_size=32,
        precision="bf16_mixed",
        epochs=0,
        repeats=7,
        proof_steps=3,
        interleave=True,
        verify_runs=True,
    )
    plan = plan_of("quick", options, device="cuda:0")
    (workload,) = plan.workloads
    assert (workload.model, workload.batch_size, workload.epochs) == ("lenet", 32, 0)
    assert workload.precision == "bf16_mixed"
    configurations = [(trial.framework, trial.variant, trial.track) for trial in plan.trials]
    assert ("pytorch", "compiled", "tuned") in configurations
    assert ("pytorch", "compiled", "equal") in configurations
    assert {framework for framework, _, _ in configurations} == {"pytorch", "jax"}
    assert len(configurations) == 4
    assert (plan.repeats.at_least, plan.repeats.at_most) == (7, 7)
    assert len(plan.runs) == 7 * len(plan.trials)
    assert (plan.proof_steps, plan.interleave, plan.verify_runs) == (3, True, True)
    assert {trial.device for trial in plan.trials} == {"cuda:0"}


def test_models_choose_workloads_of_the_suite() -> None:
    plan = plan_of("zoo", RunOptions(models=("lstm", "lenet")), device="cpu")
    assert {workload.model for workload in plan.workloads} == {"lstm", "lenet"}


def test_a_model_that_the_suite_does_not_have_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        plan_of("zoo", RunOptions(models=("lenet", "lenett")), device="cpu")
    assert str(caught.value) == "suite 'zoo' has no model 'lenett'; nearest: 'lenet'"
    with pytest.raises(UsageError, match="suite 'quick' has no model 'vgg16'; known: lenet"):
        plan_of("quick", RunOptions(models=("vgg16",)), device="cpu")


def test_a_batch_that_exceeds_the_dataset_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        plan_of("quick", RunOptions(batch_size=60_001), device="cpu")
    assert str(caught.value) == "batch size 60001 is more than the 60000 training samples of mnist"
    assert caught.value.hint == "--batch-size 60000 or less"


def test_a_model_that_does_not_fit_the_dataset_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    suite = catalog.suite("quick")
    workload = suite.workloads[0].model_copy(update={"dataset": "cifar10"})
    changed = suite.model_copy(update={"workloads": (workload,)})
    monkeypatch.setattr(catalog, "suite", lambda name: changed)
    with pytest.raises(ManifestError, match="lenet takes"):
        plan_of("quick", RunOptions(), device="cpu")


def test_the_convergence_suite_has_both_precisions_and_five_seeds() -> None:
    plan = plan_of("convergence", RunOptions(), device="cpu")
    found = {(workload.model, workload.precision) for workload in plan.workloads}
    models, precisions = ("lenet", "kent_medium"), ("float32", "bf16_mixed")
    assert found == {(model, precision) for model in models for precision in precisions}
    assert all(workload.epochs > 1 for workload in plan.workloads)
    assert {trial.seed for trial in plan.trials} == {1, 2, 3, 4, 5}
    assert set(plan.frameworks) == set(catalog.frameworks())
    assert not plan.peak and len(plan.runs) == len(plan.trials)


def test_a_precision_and_a_number_of_seeds_restrict_the_convergence_suite() -> None:
    options = RunOptions(models=("lenet",), precision="bf16_mixed", seeds=2, epochs=3)
    plan = plan_of("convergence", options, device="cpu")
    (workload,) = plan.workloads
    assert (workload.precision, workload.epochs) == ("bf16_mixed", 3)
    assert {trial.seed for trial in plan.trials} == {1, 2}
