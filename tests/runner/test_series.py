"""Batch sizes up to the largest that fits, and the proofs of a series."""

from dataclasses import replace

import pytest

from suite.manifests import catalog
from suite.manifests.workloads import Repeats, SuiteWorkload
from suite.protocol.expansion import expand
from suite.protocol.plan import Plan, Trial
from suite.results.record import Inference, Parity, Record
from suite.runner.planning import plan_of
from suite.runner.run_options import RunOptions
from suite.runner.series import Outcomes, closes, failures
from tests.results.test_record import CLOSED, record


def plan_of_series(*frameworks: str, repeats: int = 1, largest: int = 512) -> Plan:
    """LeNet at batch sizes from 64."""
    suite = catalog.suite("quick")
    workload = suite.workloads[0].model_copy(update={"max_batch_size": largest, "epochs": 0})
    exactly = Repeats(at_least=repeats, at_most=repeats)
    changed = suite.model_copy(update={"workloads": (workload,), "repeats": exactly})
    return expand(changed, catalog.frameworks(), catalog.tracks(), only=frameworks)


def batches(trials: tuple[Trial, ...]) -> list[int]:
    return [trial.workload.batch_size for trial in trials]


def of(trial: Trial, **changes: object) -> Record:
    """A record of the trial."""
    names = ("trial_id", "framework", "variant", "track", "device", "workload")
    return record(**{name: getattr(trial, name) for name in names} | changes)


def test_batch_sizes_are_doubled_up_to_the_largest() -> None:
    assert batches(plan_of_series("jax").trials) == [64, 128, 256, 512]
    assert batches(plan_of_series("jax", largest=511).trials) == [64, 128, 256]
    assert batches(plan_of_series("jax", largest=64).trials) == [64]


def test_larger_batch_sizes_may_be_listed_instead() -> None:
    workload = catalog.suite("quick").workloads[0].model_dump()
    listed = SuiteWorkload(**workload | {"larger_batch_sizes": [256, 1000]})
    assert listed.batch_sizes == (64, 256, 1000)
    plan = plan_of("variants", RunOptions(models=("resnet50",)), device="cuda")
    assert {*batches(plan.trials)} == {8, 256}
    assert {*batches(plan.proofs.trials)} == {8}
    for wrong in ({"larger_batch_sizes": [256, 128]}, {"larger_batch_sizes": [64]}):
        with pytest.raises(ValueError, match="do not increase"):
            SuiteWorkload(**workload | wrong)
    with pytest.raises(ValueError, match="exclude each other"):
        SuiteWorkload(**workload | {"larger_batch_sizes": [128], "max_batch_size": 512})


def test_in_each_round_smaller_batches_come_first() -> None:
    plan = plan_of_series("jax", "pytorch", "mxnet", repeats=4)
    for repeat in range(4):
        found = [run.trial.workload.batch_size for run in plan.runs if run.repeat == repeat]
        assert found == sorted(found) and len(found) == 12


def test_the_option_batch_size_replaces_the_series() -> None:
    options = RunOptions(models=("resnet50",), batch_size=48)
    plan = plan_of("all", options, device="cuda")
    assert {*batches(plan.trials)} == {48}
    assert all(trial.proof_trial is trial for trial in plan.trials)


def test_the_certificate_is_made_at_the_smallest_batch_size() -> None:
    trials = plan_of_series("jax").trials
    assert {trial.proof_trial for trial in trials} == {trials[0].proof_trial}
    assert trials[-1].proof_trial.workload == trials[0].workload


def test_nothing_larger_is_tried_after_a_batch_that_does_not_fit() -> None:
    small, middle, large, largest = plan_of_series("jax").trials
    other = plan_of_series("mxnet").trials[-1]
    outcomes = Outcomes([of(small), of(middle, status="failed")])
    assert outcomes.why_untried(largest) is None
    outcomes.add([of(large, status="oom"), of(largest, status="skipped")])
    assert [outcomes.why_untried(trial) for trial in (small, middle, large)] == [None] * 3
    error = outcomes.why_untried(largest)
    assert error is not None and error.message == "batch 256 did not fit into memory"
    assert outcomes.why_untried(other) is None
    precise = largest.workload.model_copy(update={"precision": "bf16_mixed"})
    assert outcomes.why_untried(replace(largest, workload=precise)) is None


def test_a_large_batch_gets_the_closing_proof_of_the_largest_smaller_one() -> None:
    small, middle, large, largest = plan_of_series("jax").trials
    proofs = [CLOSED.model_copy(update={"step": step}) for step in (10, 20)]
    records = [
        of(trial, parity=Parity(proven=True, closing=proof))
        for trial, proof in zip((small, middle), proofs, strict=True)
    ]
    outcomes = Outcomes(records)
    borrowed = proofs[1].model_copy(update={"batch_size": 128})
    assert outcomes.closing(small) is None
    assert outcomes.closing(large) == borrowed
    outcomes.add([of(large, parity=Parity(proven=True, closing=borrowed))])
    assert outcomes.closing(largest) == borrowed  # not of batch 256, which has none of its own


def test_one_certificate_serves_all_inputs_and_batch_sizes() -> None:
    options = RunOptions(models=("resnet50",), frameworks=("pytorch",), precision="float32")
    plan = plan_of("all", options, device="cuda")
    assert {each.workload.input for each in plan.trials} == {"host", "device"}
    proofs = [(each.track, each.workload.batch_size) for each in plan.proofs.trials]
    assert proofs == [(track, size) for size in (32, 64) for track in ("equal", "tuned")]


def test_a_closing_proof_is_limited_by_its_arithmetic() -> None:
    options = RunOptions(models=("resnet50", "lstm"), frameworks=("pytorch",), precision="float32")
    trials = plan_of("all", options, device="cuda").trials
    closed = {(each.workload.model, each.workload.batch_size) for each in trials if closes(each)}
    assert {size for model, size in closed if model == "resnet50"} == {32, 64}
    assert max(size for model, size in closed if model == "lstm") == 4096
    large = next(each for each in trials if each.workload.batch_size == 2048)
    assert not closes(large) and closes(replace(large, proof_batch_size=None))


def test_a_batch_that_is_too_large_is_no_failure_where_a_smaller_one_fits() -> None:
    small, large, *_ = plan_of_series("jax").trials
    fits, too_large = of(small), of(large, status="oom")
    assert failures([fits, too_large, of(large, status="skipped")]) == []
    assert failures([too_large]) == [too_large]
    other = of(plan_of_series("mxnet").trials[0])
    assert failures([other, too_large]) == [too_large]
    crashed = of(large, status="failed")
    assert failures([fits, crashed]) == [crashed]


def test_a_series_of_inference_ends_after_two_batch_sizes_that_are_no_faster() -> None:
    suite = catalog.suite("inference")
    offline = [each for each in suite.workloads if each.max_batch_size]
    changed = suite.model_copy(update={"workloads": (offline[0],)})
    trials = expand(changed, catalog.frameworks(), catalog.tracks(), only=["jax"]).trials
    by_size = {trial.workload.batch_size: trial for trial in trials}
    timed = Inference.model_construct()  # type: ignore[call-arg]

    def outcomes(**rates: float) -> Outcomes:
        records = (
            of(by_size[int(size[1:])], samples_per_s=rate, inference=timed, repeat=0)
            for size, rate in rates.items()
        )
        return Outcomes(records)

    slower_once = outcomes(b1=100, b2=200, b4=199, b8=300)
    assert slower_once.why_untried(by_size[16]) is None
    ended = outcomes(b1=100, b2=200, b4=199, b8=203)
    assert ended.why_untried(by_size[8]) is None
    reason = ended.why_untried(by_size[16])
    assert reason and reason.message == "the throughput does not grow after batch 2"
    # Later runs of the smaller batch sizes do not change the decision.
    ended.add([of(by_size[8], samples_per_s=400, inference=timed, repeat=1)])
    assert ended.why_untried(by_size[16]) == reason


def test_the_scenarios_of_inference_share_their_certificates() -> None:
    plan = plan_of("inference", RunOptions(frameworks=("jax",), models=("lenet",)), device="cpu")
    proofs = {trial.proof_trial.trial_id for trial in plan.trials}
    assert len(plan.trials) > 10 and len(proofs) == 2  # of one sample, and of eight
    assert {each.trial_id for each in plan.proofs.trials} == proofs
    assert len(plan.proofs.trials) == 2 and not plan.proofs.runs
    assert all(trial.proof_trial.workload.scenario == "offline" for trial in plan.trials)
