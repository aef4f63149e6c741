from collections.abc import Callable
from dataclasses import replace

from suite.manifests.workloads import Repeats
from suite.protocol.plan import Plan
from suite.results.record import Error, Times
from suite.runner import stopping
from suite.runner.stopping import Finished, StopReason, needed, without_partial_groups
from tests.results.test_record import CLOSED, PROVEN, record

REPEATS = Repeats(at_least=3, at_most=5, spread=0.02, budget_s=100)


def stop_reason(*rates: float | None, spent_s: float = 0) -> StopReason | None:
    """The stop reason of a trial with one run for each rate; a run without a rate failed."""
    runs = [
        record(repeat=repeat, samples_per_s=rate, status="ok" if rate else "failed")
        for repeat, rate in enumerate(rates)
    ]
    return stopping.stop_reason(runs, REPEATS, spent_s=spent_s)


def test_no_trial_stops_before_the_minimum_of_runs() -> None:
    assert stop_reason(100, 100) is None
    assert stop_reason(100, 100, spent_s=1000) is None


def test_a_trial_stops_when_its_interval_is_narrow_or_at_the_maximum_of_runs() -> None:
    assert stop_reason(100, 101, 102) == "interval narrow"
    assert stop_reason(100, 110, 120) is None
    assert stop_reason(100, 110, 120, 130) is None
    assert stop_reason(100, 110, 120, 130, 140) == "run limit"


def test_no_run_beyond_the_minimum_starts_after_the_time_budget() -> None:
    assert stop_reason(100, 110, 120, spent_s=99) is None
    assert stop_reason(100, 110, 120, spent_s=100) == "time budget spent"


def test_a_trial_with_a_failed_run_is_not_repeated_beyond_the_minimum() -> None:
    assert stop_reason(100, None, 120) == "a run failed"


def test_only_uncertain_trials_of_a_plan_get_more_runs(quick: Callable[..., Plan]) -> None:
    """The loop of the runner, with fixed rates in place of workers."""
    plan = replace(quick("jax", "mxnet", repeats=5), repeats=REPEATS)
    finished, done = Finished(), []
    for group in plan.groups:
        for run in needed(plan, group, finished):
            steady = run.trial.framework == "jax"
            rate = 100.0 if steady else 100.0 + 10 * run.repeat
            new = record(
                trial_id=run.trial.trial_id,
                repeat=run.repeat,
                samples_per_s=rate,
                times=Times(total_s=9),
            )
            done.append(new)
            finished.add([new])
            assert not needed(plan, group, finished)
    counts = [sum(each.trial_id.startswith(name) for each in done) for name in ("jax", "mxnet")]
    assert counts == [3, 5]
    assert not any(needed(plan, group, finished) for group in plan.groups)


def test_interleaved_trials_are_repeated_together(quick: Callable[..., Plan]) -> None:
    plan = replace(quick("jax", "mxnet", repeats=5), repeats=REPEATS, interleave=True)
    done = [
        record(trial_id=run.trial.trial_id, repeat=run.repeat, samples_per_s=100.0, interleaved=2)
        for group in plan.groups[:3]
        for run in group
    ]
    assert needed(plan, plan.groups[3], Finished(done)) == []
    slow = next(each for each in done if each.repeat == 1)
    done[done.index(slow)] = slow.model_copy(update={"samples_per_s": 50.0})
    assert needed(plan, plan.groups[3], Finished(done)) == list(plan.groups[3])


def test_a_round_of_interleaved_runs_without_all_its_records_is_repeated(
    quick: Callable[..., Plan],
) -> None:
    plan = replace(quick("jax", "mxnet", repeats=2), interleave=True)
    whole, partial = plan.groups
    done = [
        record(trial_id=run.trial.trial_id, repeat=run.repeat, interleaved=2)
        for run in (*whole, partial[0])
    ]
    kept = without_partial_groups(plan, done)
    assert kept == done[:2]
    assert needed(plan, partial, Finished(kept)) == list(partial)
    assert without_partial_groups(replace(plan, interleave=False), done) == done


def test_interleaved_runs_share_their_duration() -> None:
    times = Times(total_s=9)
    runs = [record(times=times, interleaved=workers) for workers in (1, 3, 3, 3)]
    assert Finished(runs).spent_s == 18


def test_a_trial_gets_no_run_that_would_exceed_its_budget() -> None:
    """Even below the minimum of runs; the closing proof of a run counts too."""
    repeats = REPEATS.model_copy(update={"trial_budget_s": 30.0})

    def reason(*durations_s: float, closing_s: float = 0) -> StopReason | None:
        closing = CLOSED.model_copy(update={"duration_s": closing_s})
        runs = [
            record(
                repeat=repeat,
                samples_per_s=100.0 + 50 * repeat,
                times=Times(total_s=duration_s),
                parity=PROVEN.model_copy(update={"closing": closing if repeat == 0 else None}),
            )
            for repeat, duration_s in enumerate(durations_s)
        ]
        return stopping.stop_reason(runs, repeats, spent_s=0)

    assert reason() is None  # a single run is always done
    assert reason(15) is None
    assert reason(16) == "time budget spent"
    assert reason(15, closing_s=1) == "time budget spent"
    assert reason(10, 10) is None
    assert reason(10, 11) == "time budget spent"


def test_a_trial_that_does_not_fit_into_memory_is_not_repeated() -> None:
    runs = [record(status="oom")]
    assert stopping.stop_reason(runs, REPEATS, spent_s=0) == "a run failed"


def test_interleaved_runs_share_their_duration_and_so_spend_less_of_the_budget() -> None:
    repeats = Repeats(at_least=3, at_most=5, trial_budget_s=30)
    runs = [record(interleaved=4, times=Times(total_s=60))]  # 15 s for each trial
    assert stopping.stop_reason(runs, repeats, spent_s=15) is None
    assert stopping.stop_reason(2 * runs, repeats, spent_s=30) == "time budget spent"


def test_the_last_run_of_a_budget_is_that_with_the_highest_number() -> None:
    """Files are read in the order of their names, in which run 10 is before run 2."""
    runs = [
        record(repeat=repeat, times=Times(total_s=20 if repeat == 10 else 10))
        for repeat in (0, 1, 10, 2, 3, 4, 5, 6, 7, 8, 9)
    ]
    many = Repeats(at_least=12, at_most=20, trial_budget_s=130)
    assert stopping.stop_reason(runs, many, spent_s=0) == "time budget spent"


def test_a_worker_that_cannot_start_is_started_once() -> None:
    """The other runs would end with the same reason."""
    broken = Error(error_class="WorkerCrashed", message="exited with code 1", hint=None)
    unstarted = {"status": "failed", "error": broken, "framework_version": None, "log": "a.log"}
    assert stopping.stop_reason([record(**unstarted)], REPEATS, spent_s=0) == "a run failed"
    later = record(**unstarted | {"framework_version": "1.0"})
    of_engine = broken.model_copy(update={"error_class": "EngineError"})
    others = [
        later,
        record(**unstarted | {"error": of_engine}),
        record(**unstarted | {"log": None}),
    ]
    for run in others:
        assert stopping.stop_reason([run], REPEATS, spent_s=0) is None
