"""The estimate of a plan, and the choice of trials by a limit of time."""

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from suite.engines.venv import environments
from suite.errors import UsageError
from suite.manifests import catalog
from suite.protocol.plan import Plan
from suite.runner import costs
from suite.runner.estimate import Estimate, estimate
from suite.runner.planning import plan_of
from suite.runner.run_options import RunOptions
from suite.runner.timelimit import TimeLimit
from tests.conftest import ScriptEngine

MODELS = ("lenet", "resnet50_cifar10")


@pytest.fixture
def plan() -> Plan:
    """16 trials of two models, the first of them LeNet."""
    return plan_of("all", RunOptions(models=MODELS, precision="float32"), device="cpu")


@pytest.fixture
def engine(script_engine: Callable[[str], ScriptEngine]) -> ScriptEngine:
    """An engine in an empty home: nothing is prepared, nothing is in a cache."""
    return script_engine("")


def test_the_estimate_has_all_stages_and_the_space(plan: Plan, engine: ScriptEngine) -> None:
    found = estimate(plan, engine)
    frameworks, datasets = set(plan.frameworks), {"mnist", "cifar10"}
    missing = {
        name
        for name in frameworks
        if not environments.needs_nothing(catalog.framework(name))  # no interpreter: none is made
    }
    assert missing
    assert found.stages_s["environments"] == len(missing) * costs.ENVIRONMENT_S
    assert found.stages_s["data"] == len(datasets) * costs.DATASET_S
    assert found.stages_s["peak"] == costs.PEAK_S
    assert found.runs_s == sum(found.costs.runs_s(trial) for trial in plan.trials)
    assert found.total_s == pytest.approx(sum(found.stages_s.values()) + found.runs_s)
    data_bytes = 70_000 * 28 * 28 + 60_000 * 3 * 32 * 32
    disk_bytes = sum(catalog.framework(name).disk_mib.cpu or 0 for name in missing) * 2**20
    assert found.new_bytes > disk_bytes + data_bytes
    counts = "2 workloads, 16 trials, 48 runs"
    assert f"{counts}, at most 30 s to 50 s for each trial: at most" in str(found)


def test_what_is_ready_costs_no_time(
    plan: Plan, engine: ScriptEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ScriptEngine, "is_prepared", lambda self, manifest: True)
    proven = frozenset(trial.trial_id for trial in plan.trials)
    found = estimate(plan, engine, proven, peak_known=True)
    assert found.stages_s["environments"] == found.stages_s["parity"] == 0
    assert found.stages_s["peak"] == 0
    one_unproven = estimate(plan, engine, proven - {plan.trials[-1].trial_id}, peak_known=True)
    last = plan.trials[-1]
    expected_s = found.costs.reference_s(last) + estimate(plan, engine).costs.certificate_s(last)
    assert one_unproven.stages_s["parity"] == pytest.approx(expected_s)


def fits(found: Estimate, limit_s: float) -> Plan:
    limit = TimeLimit(text="limit", limit_s=limit_s, started_s=time.monotonic())
    return limit.fitting(found)


def test_a_limit_keeps_the_first_trials(plan: Plan, engine: ScriptEngine) -> None:
    found = estimate(plan, engine)
    assert fits(found, found.total_s + 60) is plan
    part = fits(found, found.total_s - 60)
    kept = len(part.trials)
    assert 8 < kept < 16 and part.trials == plan.trials[:kept]
    assert {run.trial for run in part.runs} == set(part.trials)
    assert estimate(part, engine).total_s <= found.total_s - 60
    less = fits(found, found.total_s - 400)
    assert less.trials == part.trials[: len(less.trials)] and len(less.trials) < kept


def test_a_limit_for_not_even_one_trial_is_refused(plan: Plan, engine: ScriptEngine) -> None:
    with pytest.raises(UsageError, match="not even one trial fits into limit; the whole plan"):
        fits(estimate(plan, engine), 10)


def test_the_time_that_has_passed_counts(plan: Plan, engine: ScriptEngine) -> None:
    found = estimate(plan, engine)
    late = TimeLimit(text="1h", limit_s=found.total_s + 60, started_s=time.monotonic() - 120)
    assert len(late.fitting(found).trials) < 16


def test_a_note_counts_what_was_left_out_by_model(plan: Plan, engine: ScriptEngine) -> None:
    part = plan.only(plan.trials[:7])
    limit = TimeLimit.of("1h")
    (note,) = limit.noted(part, plan).notes[len(plan.notes) :]
    assert note == (
        "the time limit of 1h left out 9 of 16 trials: lenet float32 (1), "
        "resnet50_cifar10 float32 (8)"
    )
    assert limit.noted(plan, plan) is plan
    without = TimeLimit.of(None)
    assert without.fitting(estimate(plan, engine)) is plan


def test_a_trial_is_not_kept_for_its_size_alone(plan: Plan, engine: ScriptEngine) -> None:
    """A later trial that would fit does not pass an earlier one."""
    first, *others = plan.trials
    large = replace(first, budget_s=None, workload=first.workload.model_copy(update={"epochs": 99}))
    changed = replace(plan, trials=(others[0], large, *others[1:]))
    found = estimate(changed, engine)
    ready_s = found.total_s - found.costs.runs_s(large)
    assert len(fits(found, ready_s).trials) == 1
