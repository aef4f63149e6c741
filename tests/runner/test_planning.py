"""The options of the command line, applied to a suite."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from suite.errors import ManifestError, UsageError
from suite.manifests import catalog
from suite.protocol.plan import Plan
from suite.runner import processor
from suite.runner.planning import plan_of
from suite.runner.run_options import RunOptions
from suite.runner.support import unsupported_reason


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
    assert plan.workloads == tuple(each.at() for each in suite.workloads)
    assert plan.frameworks == ("pytorch", "tensorflow", "jax", "mxnet")
    assert plan.repeats == suite.repeats
    repeated = "tensorflow:graph/tuned, mxnet:hybrid/tuned"
    same = f"left out, the same settings as in another track: {repeated}"
    assert plan.notes == (same,)
    assert {trial.proof_steps for trial in plan.trials} == {suite.proof_steps}
    assert suite.interleave == "cpu" and plan.interleave
    assert plan.verify_runs == suite.verify_runs
    assert {trial.track for trial in plan.trials} == {"equal", "tuned"}
    assert {trial.device for trial in plan.trials} == {"cpu"}
    on_gpu = plan_of("quick", RunOptions(), device="cuda")
    assert not on_gpu.interleave
    tuned = [trial.framework for trial in on_gpu.trials if trial.track == "tuned"]
    assert tuned == ["pytorch", "tensorflow", "jax", "mxnet"] and on_gpu.notes == ()


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
    plan = plan_of("quick", options, device="cuda")
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
    assert {trial.proof_steps for trial in plan.trials} == {3}
    assert (plan.interleave, plan.verify_runs) == (True, True)
    assert {trial.device for trial in plan.trials} == {"cuda"}


def test_the_option_repeats_requests_exactly_so_many_runs() -> None:
    suite = plan_of("all", RunOptions(), device="cpu")
    assert all(trial.budget_s for trial in suite.trials)
    plan = plan_of("all", RunOptions(repeats=7), device="cpu")
    assert all(trial.budget_s is None for trial in plan.trials)
    assert (plan.repeats.at_least, plan.repeats.at_most) == (7, 7)


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
    monkeypatch.setattr(catalog, "suite", lambda name, device: changed)
    with pytest.raises(ManifestError, match="lenet takes"):
        plan_of("quick", RunOptions(), device="cpu")


def test_each_class_has_a_weight_and_several_ranks_have_none() -> None:
    zoo = catalog.suite("zoo")
    weighted = next(each for each in zoo.workloads if each.class_weights)
    assert weighted.class_weights is not None and len(weighted.class_weights) == 10
    options = RunOptions(
        models=(weighted.model,), frameworks=("mxnet",), devices=("cpu:1", "cpu:2")
    )
    trials = plan_of("zoo", options, device="cpu").trials
    reasons = {
        (bool(each.workload.class_weights), each.devices.ranks): unsupported_reason(each)
        for each in trials
    }
    assert "each of several ranks" in str(reasons[True, 2])
    assert reasons[True, 1] is reasons[False, 1] is reasons[False, 2] is None


def test_micro_batches_are_of_one_rank_and_equal() -> None:
    options = RunOptions(models=("every_layer",), devices=("cpu:1", "cpu:2"))
    reasons = {
        (each.workload.accumulate, each.devices.ranks): unsupported_reason(each)
        for each in plan_of("zoo", options, device="cpu").trials
        if each.configuration == "pytorch:eager"
    }
    assert "on one device only" in str(reasons[2, 2])
    assert reasons[2, 1] is reasons[1, 1] is reasons[1, 2] is None
    with pytest.raises(UsageError, match="a batch of 9 is not divisible into 2 micro-batches"):
        plan_of("zoo", RunOptions(models=("every_layer",), batch_size=9), device="cpu")


def test_class_weights_of_another_number_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    suite = catalog.suite("quick")
    workload = suite.workloads[0].model_copy(update={"class_weights": (1.0, 2.0)})
    changed = suite.model_copy(update={"workloads": (workload,)})
    monkeypatch.setattr(catalog, "suite", lambda name, device: changed)
    with pytest.raises(ManifestError, match="has 10 classes, class_weights has 2 numbers"):
        plan_of("quick", RunOptions(), device="cpu")


def test_the_convergence_suite_has_both_precisions_and_five_seeds() -> None:
    plan = plan_of("convergence", RunOptions(), device="cpu")
    found = {(workload.model, workload.precision) for workload in plan.workloads}
    models, precisions = ("lenet", "kent_medium"), ("float32", "bf16_mixed")
    assert found == {(model, precision) for model in models for precision in precisions}
    assert {workload.epochs for workload in plan.workloads} == {1}
    assert {trial.seed for trial in plan.trials} == {1, 2, 3, 4, 5}
    assert plan.frameworks == catalog.suite("convergence").frameworks
    assert not plan.peak and len(plan.runs) == len(plan.trials)


def test_a_precision_and_a_number_of_seeds_restrict_the_convergence_suite() -> None:
    options = RunOptions(models=("lenet",), precision="bf16_mixed", seeds=2, epochs=3)
    plan = plan_of("convergence", options, device="cpu")
    (workload,) = plan.workloads
    assert (workload.precision, workload.epochs) == ("bf16_mixed", 3)
    assert {trial.seed for trial in plan.trials} == {1, 2}


def configurations(plan: Plan) -> list[tuple[str, str]]:
    """Each configuration and precision once."""
    found = ((trial.configuration, trial.workload.precision) for trial in plan.trials)
    return list(dict.fromkeys(found))


def test_the_device_chooses_the_form_of_a_suite() -> None:
    assert plan_of("all", RunOptions(), device="cpu").suite == "all_cpu"
    on_gpu = plan_of("variants", RunOptions(models=("resnet50",)), device="cuda")
    assert on_gpu.suite == "variants_cuda"
    configurations = {trial.configuration for trial in on_gpu.trials}
    assert {"pytorch:max_autotune", "pytorch:eager/tuned", "jax:triton_gemm"} <= configurations
    assert plan_of("quick", RunOptions(), device="cuda").suite == "quick"


@pytest.mark.parametrize("flags", ["flags\t\t: fpu avx512_bf16 sse", "Features\t: asimd bf16"])
def test_bfloat16_is_left_out_where_the_cpu_would_emulate_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, flags: str
) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    monkeypatch.setattr(processor, "CPUINFO", cpuinfo)

    def plan(**options: Any) -> Plan:
        return plan_of("all", RunOptions(frameworks=("pytorch",), **options), device="cpu")

    note = "bf16_mixed left out: this CPU has no instructions for bfloat16"
    for text in (None, "flags: avx512f\nmodel name: bf16"):
        if text:
            cpuinfo.write_text(text)
        assert note in plan().notes
        assert {name for _, name in configurations(plan())} == {"float32"}
    asked = plan(precision="bf16_mixed")
    assert note not in asked.notes
    assert {name for _, name in configurations(asked)} == {"bf16_mixed"}
    cpuinfo.write_text(flags)
    both = plan()
    assert note not in both.notes
    assert ("pytorch:channels_last/tuned", "bf16_mixed") in configurations(both)
    precisions = [trial.workload.precision for trial in both.trials]
    assert precisions == sorted(precisions, key=("float32", "bf16_mixed").index)


def test_on_a_gpu_each_model_has_both_precisions_before_the_next_model() -> None:
    trials = plan_of("all", RunOptions(frameworks=("jax",)), device="cuda").trials
    found = [
        (each.workload.model, each.workload.precision)
        for each in trials
        if each.workload.input == "host"
    ]
    found = list(dict.fromkeys(found))
    precisions = ("float32", "bf16_mixed")
    assert found[:4] == [(m, p) for m in ("resnet50", "gpt_small") for p in precisions]
    assert len(found) == 14


def test_a_second_track_with_the_same_variant_and_settings_is_left_out() -> None:
    plan = plan_of("all", RunOptions(precision="float32"), device="cpu")
    names = {name for name, _ in configurations(plan)}
    assert {"jax:jit", "jax:matmul/tuned", "mxnet:hybrid"} <= names
    assert "mxnet:hybrid/tuned" not in names
    assert any(
        "the same settings as in another track" in note and "mxnet" in note for note in plan.notes
    )
    both = RunOptions(tracks=("equal", "tuned"), frameworks=("mxnet",))
    asked = plan_of("all", both, device="cpu")
    assert {"mxnet:hybrid", "mxnet:hybrid/tuned"} == {name for name, _ in configurations(asked)}
    on_gpu = plan_of("all", RunOptions(frameworks=("mxnet",)), device="cuda")
    assert ("mxnet:hybrid/tuned", "float32") in configurations(on_gpu)  # TF32 differs there


def test_chosen_tracks_replace_those_that_a_suite_gives_to_single_frameworks() -> None:
    equal = plan_of("quick", RunOptions(tracks=("equal",)), device="cpu")
    names = [name for name, _ in configurations(equal)]
    assert names == ["pytorch:eager", "tensorflow:graph", "jax:jit", "mxnet:hybrid"]
    tuned = plan_of("quick", RunOptions(tracks=("tuned",)), device="cpu")
    assert {trial.track for trial in tuned.trials} == {"tuned"} and len(tuned.trials) == 4


def devices(suite: str, device: str, **changes: Any) -> list[str]:
    options = RunOptions(frameworks=("pytorch",), **changes)
    return list(
        dict.fromkeys(each.device for each in plan_of(suite, options, device=device).trials)
    )


def test_the_device_sets_are_the_users_the_suites_or_the_engines() -> None:
    assert devices("quick", "cpu") == ["cpu"]
    assert devices("quick", "cuda:4") == ["cuda:4"]
    assert devices("quick", "cuda") == ["cuda"]
    assert devices("scaling", "cpu") == ["cpu:1", "cpu:2"]
    assert devices("scaling", "cuda:4") == ["cuda:1", "cuda:2", "cuda:4"]
    assert devices("scaling", "cpu", devices=("cpu:4",)) == ["cpu:4"]
    assert devices("quick", "cpu", nodes=2) == ["cpu:1x2"]
    assert devices("quick", "cuda:4", nodes=2) == ["cuda:4x2"]


def test_scaling_to_several_nodes_keeps_the_sets_on_one_node() -> None:
    assert devices("scaling", "cpu", nodes=2) == ["cpu:1", "cpu:2", "cpu:2x2"]
    assert devices("scaling", "cpu", nodes=2, devices=("cpu:1",)) == ["cpu:1", "cpu:1x2"]
    assert devices("scaling", "cuda:4", nodes=2) == ["cuda:1", "cuda:2", "cuda:4", "cuda:4x2"]
    assert devices("scaling", "cpu", nodes=1) == ["cpu:1", "cpu:2"]


@pytest.mark.parametrize(
    ("named", "message", "hint"),
    [
        ("cuda:2", "the workers have device cpu", "--gpus 2"),
        ("gpu", "is not a device set", "--devices cpu:2"),
    ],
)
def test_other_devices_than_the_engines_are_refused(named: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        devices("quick", "cpu", devices=(named,))
    assert refused.value.hint == hint


def test_a_scale_is_a_share_of_the_epochs_or_of_the_samples() -> None:
    """kent-2023 has ten epochs of the 60,000 images of MNIST."""
    whole = plan_of("papers/kent-2023", RunOptions(models=("kent_small",)), device="cpu")
    assert {run.trial.workload.epochs for run in whole.runs} == {10}
    for scale, epochs, samples in ((0.3, 3, None), (0.1, 1, None), (0.01, 1, 6000)):
        options = RunOptions(models=("kent_small",), scale=scale)
        plan = plan_of("papers/kent-2023", options, device="cpu")
        workload = plan.runs[0].trial.workload
        assert (workload.epochs, workload.epoch_samples) == (epochs, samples)


def test_a_scale_has_at_least_one_batch() -> None:
    options = RunOptions(models=("kent_small",), scale=1e-9)
    plan = plan_of("papers/kent-2023", options, device="cpu")
    assert plan.runs[0].trial.workload.epoch_samples == 32


def test_a_scale_changes_no_inference() -> None:
    plan = plan_of("papers/ee147-2018", RunOptions(scale=0.01), device="cpu")
    assert {run.trial.workload.epochs for run in plan.runs} == {0}


@pytest.mark.parametrize("scale", [0.0, -1.0, 1.5])
def test_a_scale_is_a_share(scale: float) -> None:
    with pytest.raises(UsageError, match="above 0 and at most 1"):
        plan_of("papers/kent-2023", RunOptions(scale=scale), device="cpu")


def test_a_scale_and_a_number_of_epochs_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="exclude each other"):
        plan_of("quick", RunOptions(scale=0.5, epochs=1), device="cpu")
