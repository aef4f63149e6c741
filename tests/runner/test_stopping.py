from collections.abc import Callable
from dataclasses import replace

from suite.manifests.workloads import Repeats
from suite.protocol.plan import Plan
from suite.results.record import Record, Times
from suite.runner.stopping import Enough, spent_s, wanted
from tests.test_records import record

REPEATS = Repeats(at_least=3, at_most=5, spread=0.02, budget_s=100)


def why(*rates: float | None, spent_s: float = 0) -> Enough | None:
    runs = [
        record(repeat=repeat, samples_per_s=rate, status="ok" if rate else "failed")
        for repeat, rate in enumerate(rates)
    ]
    return stop_reason(runs, REPEATS, spent_s=spent_s)


def test_the_least_are_done_however_alike_they_are_and_whatever_they_take() -> None:
    assert why(100, 100) is None
    assert why(100, 100, spent_s=1000) is None


def test_a_narrow_interval_is_enough_and_a_wide_one_wants_more_up_to_the_most() -> None:
    assert why(100, 101, 102) == "narrow enough"
    assert why(100, 110, 120) is None
    assert why(100, 110, 120, 130) is None
    assert why(100, 110, 120, 130, 140) == "most runs"


def test_nothing_beyond_the_least_begins_once_the_budget_is_spent() -> None:
    assert why(100, 110, 120, spent_s=99) is None
    assert why(100, 110, 120, spent_s=100) == "budget spent"


def test_a_trial_that_failed_is_not_repeated_beyond_the_least() -> None:
    assert why(100, None, 120) == "a run failed"


def test_of_a_plan_only_uncertain_trials_get_more_runs(quick: Callable[..., Plan]) -> None:
    """What the runner does, with figures in place of workers."""
    plan = replace(quick("jax", "mxnet", repeats=5), repeats=REPEATS)
    done: list[Record] = []
    for group in plan.groups:
        for run in wanted(plan, group, done):
            steady = run.trial.framework == "jax"
            rate = 100.0 if steady else 100.0 + 10 * run.repeat
            done.append(
                record(
                    trial_id=run.trial.trial_id,
                    repeat=run.repeat,
                    samples_per_s=rate,
                    times=Times(total_s=9),
                )
            )
            assert not wanted(plan, group, done)
    counts = [sum(each.trial_id.startswith(name) for each in done) for name in ("jax", "mxnet")]
    assert counts == [3, 5]
    assert not any(wanted(plan, group, done) for group in plan.groups)


def test_those_that_take_turns_are_repeated_together(quick: Callable[..., Plan]) -> None:
    plan = replace(quick("jax", "mxnet", repeats=5), repeats=REPEATS, turns=True)
    done = [
        record(trial_id=run.trial.trial_id, repeat=run.repeat, samples_per_s=100.0, turns=2)
        for group in plan.groups[:3]
        for run in group
    ]
    assert wanted(plan, plan.groups[3], done) == []
    slow = next(each for each in done if each.repeat == 1)
    done[done.index(slow)] = slow.model_copy(update={"samples_per_s": 50.0})
    assert wanted(plan, plan.groups[3], done) == list(plan.groups[3])


def test_those_that_take_turns_pass_the_same_time() -> None:
    alone, *others = [record(times=Times(total_s=9), turns=turns) for turns in (1, 3, 3, 3)]
    assert spent_s([alone, *others]) == 18
