"""What the parts of a plan take at most."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from suite.protocol.plan import Plan
from suite.runner import costs
from suite.runner.costs import Costs
from suite.runner.estimate import Estimate
from suite.runner.planning import plan_of
from suite.runner.run_options import RunOptions
from suite.runner.timelimit import TimeLimit


def of(plan: Plan, *, cores: int = 2, proven: frozenset[str] = frozenset()) -> Costs:
    return Costs(plan=plan, cores=cores, proven=proven)


def test_runs_cost_their_repeats_the_epochs_and_the_closing_proof(
    quick: Callable[..., Plan],
) -> None:
    plan = quick("pytorch", repeats=3)
    (trial,) = plan.trials
    one_epoch = trial.workload.model_copy(update={"epochs": 1})
    measure = plan.measure
    warmup_s = measure.max_warmup_blocks * measure.block_s
    one_run_s = costs.START_S + warmup_s + measure.max_measure_s
    runs_s = of(plan).runs_s(trial)
    assert 3 * one_run_s + costs.START_S < runs_s < 3 * one_run_s + costs.START_S + 1
    epoch_s = of(plan).runs_s(replace(trial, workload=one_epoch)) - runs_s
    assert epoch_s == pytest.approx(60_000 * 13.2e6 / (2 * costs.FLOAT32_FLOPS), rel=0.01)


def test_runs_cost_at_most_the_budget_of_their_trial(quick: Callable[..., Plan]) -> None:
    plan = quick("pytorch", repeats=3)
    (trial,) = plan.trials
    assert of(plan).runs_s(replace(trial, budget_s=10)) == 10
    assert of(plan).runs_s(replace(trial, budget_s=1e6)) == of(plan).runs_s(trial)


def test_a_proof_in_the_cache_and_an_unsupported_trial_cost_nothing() -> None:
    plan = plan_of("zoo", RunOptions(models=("lstm",), precision="bf16_mixed"), device="cpu")
    mxnet = next(trial for trial in plan.trials if trial.framework == "mxnet")
    jax = next(trial for trial in plan.trials if trial.framework == "jax")
    assert of(plan).runs_s(mxnet) == of(plan).certificate_s(mxnet) == 0
    assert of(plan).certificate_s(jax) > 0
    assert of(plan, proven=frozenset({jax.trial_id})).certificate_s(jax) == 0


def test_more_steps_cost_more_and_more_cores_less() -> None:
    plan = plan_of("all", RunOptions(models=("resnet50_cifar10",)), device="cpu")
    trial = plan.trials[0]
    ten = replace(trial, proof_steps=10)
    assert of(plan).reference_s(ten) > 2 * of(plan).reference_s(trial)
    assert of(plan).certificate_s(ten) > of(plan).certificate_s(trial)
    assert of(plan, cores=16).reference_s(trial) < of(plan).reference_s(trial)


def test_proofs_that_serve_several_trials_are_counted_once() -> None:
    options = RunOptions(
        frameworks=("pytorch:eager", "jax"),
        models=("lenet",),
        scenarios=("single_stream", "offline"),
    )
    plan = plan_of("inference", options, device="cpu")
    found = dict(zip((trial.trial_id for trial in plan.trials), of(plan).proofs_s(), strict=True))
    certified = {trial.proof_trial.trial_id: trial for trial in plan.trials}
    assert len(certified) < len(plan.trials)
    assert sum(value > 0 for value in found.values()) == len(certified)
    certificates_s = sum(map(of(plan).certificate_s, certified.values()))
    reference_s = sum(found.values()) - certificates_s
    assert reference_s == pytest.approx(of(plan).reference_s(plan.trials[0]))


def test_trials_that_differ_only_in_the_input_have_one_proof() -> None:
    options = RunOptions(models=("lstm",), frameworks=("jax",), precision="float32")
    plan = plan_of("all", options, device="cuda")
    assert {trial.workload.input for trial in plan.trials} == {"host", "device"}
    found = of(plan).proofs_s()
    tracks = len({trial.track for trial in plan.trials})
    assert sum(value > 0 for value in found) == tracks and found[0] == max(found)


def test_queries_of_a_large_batch_take_no_more_calls_than_needed() -> None:
    """The least number of queries counts samples in scenario offline."""
    plan = plan_of("inference", RunOptions(models=("resnet50",)), device="cpu")
    of_stream, *of_offline = (
        trial
        for trial in plan.trials
        if trial.framework == "pytorch" and trial.track == "equal"
        if trial.workload.scenario in ("single_stream", "offline")
    )
    plan = replace(plan, measure=plan.measure.model_copy(update={"max_query_s": 1e9}))
    found = [of(plan)._run_s(replace(trial, budget_s=None)) for trial in (of_stream, *of_offline)]
    assert max(found) < 1.1 * found[0]


# Of an H200 (docs/measurements/gpu.md); float64 by NVIDIA's data sheet.
H200 = {
    "matmul_float32": 5.1e13,
    "matmul_tf32": 4.05e14,
    "matmul_bfloat16": 7.94e14,
    "matmul_float64": 6.7e13,
}


def test_within_its_limit_the_suite_for_gpus_has_the_large_models_in_both_precisions() -> None:
    """With the reference on the GPU; on 16 cores the same proofs take many times as long."""
    plan = plan_of("all", RunOptions(), device="cuda")
    placed = plan.with_reference("cuda")
    costs_there = Costs(plan=placed, cores=16, peak_known=True, gpu_flops=H200)
    assert plan.max_time == "90m"
    limit = TimeLimit.of(plan.max_time).started()
    found = Estimate(costs=costs_there, stages_s={}, new_bytes=0, results_bytes=0)
    kept = {(t.workload.model, t.workload.precision) for t in limit.fitting(found).trials}
    models = ("resnet50", "gpt_small", "vit_tiny")
    assert {(m, p) for m in models for p in ("float32", "bf16_mixed")} <= kept
    on_cores = Costs(plan=plan, cores=16, peak_known=True, gpu_flops=H200)
    assert sum(on_cores.proofs_s()) > 3 * sum(costs_there.proofs_s())


def test_the_measured_peak_of_a_gpu_replaces_the_assumed_rate() -> None:
    plan = plan_of("quick", RunOptions(frameworks=("pytorch",)), device="cuda")
    trial = plan.trials[0]
    assert Costs(plan=plan, cores=2)._rate(trial) == costs.GPU_FLOPS
    known = Costs(plan=plan, cores=2, gpu_flops=H200)
    assert known._rate(trial) == pytest.approx(costs.GPU_SHARE * 5.1e13)
    tf32 = replace(trial, runtime=trial.runtime.model_copy(update={"tf32": True}))
    assert known._rate(tf32) == pytest.approx(costs.GPU_SHARE * 4.05e14)
