"""The self-test: faults are planted for real."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from suite.datasets import inputs
from suite.engines.venv.engine import VenvEngine
from suite.errors import DlsuiteError
from suite.protocol.plan import Plan
from suite.runner import selftest
from suite.runner.runner import Runner
from suite.runner.selftest import (
    FAULTS,
    RUN_FAULTS,
    RUN_WORKLOAD,
    WORKLOAD,
    Fault,
    Finding,
    SelfTest,
)
from tests.conftest import Silent


def selftest_of(
    tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch, *faults: Fault
) -> list[Finding]:
    """What the self-test finds with these faults alone."""
    lines = {fault.right for fault in RUN_FAULTS}
    of_runs = tuple(fault for fault in faults if fault.right in lines)
    monkeypatch.setattr(selftest, "RUN_FAULTS", of_runs)
    monkeypatch.setattr(
        selftest, "FAULTS", tuple(fault for fault in faults if fault not in of_runs)
    )
    engine = VenvEngine()
    runner = Runner(engine, Silent(), tmp_path)
    test = SelfTest(
        engine=engine,
        prepared=runner.prepared(plan.frameworks),
        make_engine=VenvEngine,
        inputs=inputs.obtain(WORKLOAD, seed=1, folder=tmp_path / "inputs", notify=print),
        run_inputs=inputs.obtain(RUN_WORKLOAD, seed=1, folder=tmp_path / "run", notify=print),
        work_dir=tmp_path,
        notify=print,
    )
    return [*test.run(plan)]


def named(name: str) -> Fault:
    return next(fault for fault in (*FAULTS, *RUN_FAULTS) if fault.name == name)


def test_faults_of_the_steps_and_of_the_timed_run_are_found_and_nothing_else_is(
    tmp_path: Path, quick: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three of the eighteen in one framework, and one more; `make selftest` plants them all."""
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
        named("the same batch again and again"),
    )
    found = selftest_of(tmp_path, quick("tensorflow"), monkeypatch, *faults)
    padding, uncounted, proof, batch, clean = (finding.caught_by for finding in found)
    assert "step 0: logits is off" in str(padding)
    assert "the optimiser did 39 steps where" in str(uncounted)
    assert "closing proof at step" in str(proof)
    assert "closing proof at step" in str(batch) and "loss is off" in str(batch)
    assert clean is None


def test_small_faults_of_an_optimiser_are_caught(
    tmp_path: Path, quick: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One per cent of the rate, and a weight decay of 1e-4; with the self-test's references."""
    rate = Fault(
        name="rate",
        framework="mxnet",
        file="frameworks/mxnet.py",
        right="Adam(learning_rate=rate,",
        wrong="Adam(learning_rate=1.01 * rate,",
    )
    decay = Fault(
        name="decay",
        framework="tensorflow",
        file="frameworks/tensorflow.py",
        right="self._gradient: gradient}",
        wrong="self._gradient: gradient + 1e-4 * variable}",
    )
    planned = quick("mxnet", "tensorflow")
    found = [each.caught_by for each in selftest_of(tmp_path, planned, monkeypatch, rate, decay)]
    assert "step 0: weights norm1.bias is off by 1.0e-02" in str(found[0])
    assert "step 0: updates" in str(found[1])
    assert found[2:] == [None, None]


def test_there_are_eighteen_faults_of_different_kinds(tmp_path: Path) -> None:
    assert (len(FAULTS), len(RUN_FAULTS)) == (12, 6)
    faults = (*FAULTS, *RUN_FAULTS)
    assert len({fault.name for fault in faults}) == 18
    for number, fault in enumerate(faults):
        worker = fault.plant(tmp_path / str(number))
        text = (worker / fault.file).read_text(encoding="utf-8")
        assert fault.wrong in text
        compile(text, fault.file, "exec")


def test_a_fault_that_no_longer_fits_is_an_error(tmp_path: Path) -> None:
    stale = Fault(name="x", framework="jax", file="data.py", right="not there", wrong="")
    with pytest.raises(DlsuiteError, match="no longer fits"):
        stale.plant(tmp_path / "worker")


def test_a_fault_missed_and_a_false_alarm_are_both_bad() -> None:
    def finding(fault: str | None, caught_by: str | None) -> Finding:
        return Finding(fault=fault, framework="jax", variant="jit", caught_by=caught_by)

    assert finding("f", "step 0").good and finding(None, None).good
    assert not finding("f", None).good and not finding(None, "step 0").good
