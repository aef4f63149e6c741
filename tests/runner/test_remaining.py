"""The remaining time of runs, by the durations of the finished ones."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from suite.protocol.plan import Plan, Trial
from suite.results.record import Record, Times
from suite.runner.costs import Costs
from suite.runner.remaining import Remaining
from tests.results.test_record import record


def finished(trial: Trial, repeat: int, total_s: float) -> Record:
    name = trial.trial_id
    times = Times(total_s=total_s)
    return record(trial_id=name, repeat=repeat, samples_per_s=100.0 + repeat * 50, times=times)


@pytest.fixture
def plan(quick: Callable[..., Plan]) -> Plan:
    return quick("jax", "mxnet", repeats=3)


def test_without_finished_runs_it_is_the_planned_cost(plan: Plan) -> None:
    costs = Costs(plan=plan, cores=2)
    assert Remaining(costs).runs_s() == sum(map(costs.runs_s, plan.trials))


def test_a_trial_takes_as_long_as_its_finished_runs(plan: Plan) -> None:
    first, second = plan.trials
    remaining = Remaining(Costs(plan=plan, cores=2), [finished(first, 0, 20.0)])
    remaining.done(finished(second, 0, 10.0))
    assert remaining.runs_s() == pytest.approx(2 * 20 + 2 * 10)
    remaining.done(finished(first, 1, 40.0))
    assert remaining.runs_s() == pytest.approx(30 + 2 * 10)
    remaining.done(finished(first, 2, 40.0))
    assert remaining.runs_s() == pytest.approx(2 * 10)


def test_trials_without_runs_are_as_much_slower_than_planned_as_the_others(plan: Plan) -> None:
    costs = Costs(plan=plan, cores=2)
    first, second = plan.trials
    run_s = costs.runs_s(first)  # three times as long as planned
    remaining = Remaining(costs, [finished(first, 0, run_s)])
    assert remaining.runs_s() == pytest.approx(2 * run_s + 3 * costs.runs_s(second))


def test_the_budget_of_a_trial_limits_its_remaining_time(plan: Plan) -> None:
    limited = replace(plan, trials=tuple(replace(each, budget_s=50) for each in plan.trials))
    first = limited.trials[0]
    remaining = Remaining(Costs(plan=limited.only([first]), cores=2), [finished(first, 0, 20.0)])
    assert remaining.runs_s() == pytest.approx(30)
    remaining.done(finished(first, 1, 20.0))  # a third one would exceed the budget
    assert remaining.runs_s() == 0
