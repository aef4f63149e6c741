"""The self-test with planted faults, and with the real frameworks."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from suite.datasets import obtain
from suite.engines.venv.engine import VenvEngine
from suite.protocol.plan import Plan
from suite.runner.frameworks import Frameworks
from suite.runner.selftest import selftest
from suite.runner.selftest.faults import BFLOAT16_FAULTS, FAULTS, TEXT_FAULTS, Fault
from suite.runner.selftest.finding import Finding
from suite.runner.selftest.selftest import SelfTest
from suite.runner.selftest.timed_faults import DROPOUT_FAULTS, RUN_FAULTS
from suite.runner.selftest.workloads import WORKLOADS


def selftest_of(
    tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch, *faults: Fault
) -> Iterator[Finding]:
    """The findings of the self-test with these faults only, each computed when it is asked for."""
    lines = {fault.right for fault in RUN_FAULTS}
    of_runs = tuple(fault for fault in faults if fault.right in lines)
    of_text = tuple(fault for fault in faults if fault in TEXT_FAULTS)
    of_dropout = tuple(fault for fault in faults if fault in DROPOUT_FAULTS)
    of_steps = tuple(each for each in faults if each not in (*of_runs, *of_text, *of_dropout))
    monkeypatch.setattr(selftest, "DROPOUT_FAULTS", of_dropout)
    monkeypatch.setattr(selftest, "TEXT_FAULTS", of_text)
    monkeypatch.setattr(selftest, "RUN_FAULTS", of_runs)
    others = ("NUMBER_FAULTS", "RECIPE_FAULTS", "WEIGHT_FAULTS", "LAYER_FAULTS", "BFLOAT16_FAULTS")
    for name in (
        *others,
        "ACCUMULATE_FAULTS",
        "LAMB_FAULTS",
        "RANK_FAULTS",
        "INFERENCE_FAULTS",
        "TIMED_INFERENCE_FAULTS",
    ):
        monkeypatch.setattr(selftest, name, ())
    monkeypatch.setattr(selftest, "FAULTS", of_steps)
    engine = VenvEngine()
    test = SelfTest(
        engine=engine,
        prepared=Frameworks(engine, print).with_reference(plan.frameworks),
        make_engine=VenvEngine,
        inputs={
            each: obtain.obtain(each, seed=1, folder=tmp_path / f"inputs-{number}", notify=print)
            for number, each in enumerate(WORKLOADS)
        },
        work_dir=tmp_path,
        notify=print,
    )
    return test.run(plan)


def named(name: str) -> Fault:
    faults = (*FAULTS, *TEXT_FAULTS, *BFLOAT16_FAULTS, *RUN_FAULTS, *DROPOUT_FAULTS)
    return next(fault for fault in faults if fault.name == name)


@pytest.mark.verify
def test_three_faults_are_found_and_nothing_else(
    tmp_path: Path, quick: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Faults of the certificate's steps and of timed runs, and the worker without a fault in one
    workload; `make selftest` has all of them.
    """
    faults = (
        named("a frozen bias"),
        named("half of the batch after warm-up"),
        named("dropout left out"),
    )
    found = selftest_of(tmp_path, quick("pytorch"), monkeypatch, *faults)
    frozen, half, unmasked, clean = (next(found).caught_by for _ in range(4))
    assert "closing proof at step" in str(unmasked)
    assert "step 0:" in str(frozen) and "bias" in str(frozen)
    assert "closing proof at step" in str(half)
    assert clean is None


@pytest.mark.verify
def test_a_summed_loss_is_found_in_the_first_step(
    tmp_path: Path, quick: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = named("loss summed instead of averaged")
    summed = next(selftest_of(tmp_path, quick("pytorch"), monkeypatch, fault)).caught_by
    assert "step 0: loss" in str(summed) or "step 0: gradients" in str(summed)


@pytest.mark.verify
def test_faults_of_the_steps_and_of_the_timed_run_are_found_without_false_alarms(
    tmp_path: Path, quick: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three of the faults, and one more; `make selftest` plants all."""
    idle = named("idle from the fortieth step")
    counted = """\
        self._calls = getattr(self, "_calls", 0) + 1
        if self._calls < 40:
            self._last = self._train_step(*batch)
        else:
            self._optimizer.steps.assign_add(1)
        return self._last
"""
    faults = (
        named("asymmetric padding"),
        idle,
        replace(idle, name="idle steps that are counted", wrong=counted),
        named("a repeated batch"),
    )
    found = selftest_of(tmp_path, quick("tensorflow"), monkeypatch, *faults)
    padding, uncounted, proof, batch, *clean = (finding.caught_by for finding in found)
    assert "step 0: logits: relative error" in str(padding)
    assert "the optimizer did 39 steps, but" in str(uncounted)
    assert "closing proof at step" in str(proof)
    assert "closing proof at step" in str(batch) and "loss: relative error" in str(batch)
    assert clean and not any(clean)  # in bf16_mixed and on two ranks, too


@pytest.mark.verify
def test_small_faults_of_an_optimizer_are_found(
    tmp_path: Path, quick: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A learning rate that is 1 % too large, and a weight decay of 1e-4."""
    rate = Fault(
        name="rate",
        framework="mxnet",
        file="frameworks/mxnet/session.py",
        right="Adam(learning_rate=rate,",
        wrong="Adam(learning_rate=1.01 * rate,",
    )
    decay = Fault(
        name="decay",
        framework="tensorflow",
        file="frameworks/tensorflow/session.py",
        right="self._gradient: gradient}",
        wrong="self._gradient: gradient + 1e-4 * variable}",
    )
    planned = quick("mxnet", "tensorflow")
    findings = selftest_of(tmp_path, planned, monkeypatch, rate, decay)
    found = [each.caught_by for each in findings]
    assert "step 0: weights norm1.bias: relative error 1.0e-02 exceeds" in str(found[0])
    assert "step 0: updates" in str(found[1])
    assert found[2:] and not any(found[2:])  # in bf16_mixed and on two ranks, too


def test_a_missed_fault_and_a_false_alarm_are_both_bad() -> None:
    def finding(fault: str | None, caught_by: str | None) -> Finding:
        return Finding(
            fault=fault,
            framework="jax",
            variant="jit",
            precision="float32",
            device="cpu",
            caught_by=caught_by,
        )

    assert finding("f", "step 0").good and finding(None, None).good
    assert not finding("f", None).good and not finding(None, "step 0").good


@pytest.mark.verify
def test_faults_of_bfloat16_are_found(
    tmp_path: Path, quick: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of the six: one is too inaccurate in one value, the other too accurate in all."""
    faults = (named("softmax and loss in bfloat16"), named("float16 as bfloat16"))
    found = selftest_of(tmp_path, quick("pytorch"), monkeypatch, *faults)
    loss, float16, *clean = (finding.caught_by for finding in found)
    assert "the loss of every step is a bfloat16 number" in str(loss)
    assert "the operands are not rounded to bfloat16" in str(float16)
    assert clean and not any(clean)  # in bf16_mixed and on two ranks, too


@pytest.mark.verify
def test_a_fault_between_the_steps_of_a_call_is_found(
    tmp_path: Path, quick: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The certificate cannot show it: it has one step in a call."""
    fault = named("one batch in all steps of a call")
    found = selftest_of(tmp_path, quick("jax:scan"), monkeypatch, fault)
    batch, *clean = (finding.caught_by for finding in found)
    assert "closing proof at step" in str(batch)
    assert clean and not any(clean)  # in bf16_mixed and on two ranks, too
