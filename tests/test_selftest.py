"""The self-test as a user starts it: every fault is planted for real."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from suite import inputs, selftest
from suite.engines.venv import VenvEngine
from suite.errors import DlsuiteError
from suite.plan import Plan
from suite.runner import Runner
from suite.selftest import FAULTS, WORKLOAD, Fault, Finding, SelfTest
from tests.conftest import Silent


def test_each_fault_is_caught_and_nothing_else_is(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("dlsuite")), "selftest"]
    command += ["-f", "pytorch", "-f", "tensorflow", "-f", "jax", "-f", "mxnet"]
    reply = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=os.environ)
    assert reply.returncode == 0, reply.stderr + reply.stdout
    assert "12 of 12 faults caught, 0 false alarms in 4 workers without a fault" in reply.stdout


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
    monkeypatch.setattr(selftest, "FAULTS", (rate, decay))
    runner = Runner(VenvEngine(), Silent(), tmp_path)
    test = SelfTest(
        make_engine=VenvEngine,
        prepared=runner.prepared(["mxnet", "tensorflow"]),
        inputs=inputs.obtain(WORKLOAD, seed=1, place=tmp_path / "inputs", say=print),
        work=tmp_path,
        say=print,
    )
    trials = [replace(each, workload=WORKLOAD) for each in quick("mxnet", "tensorflow").trials]
    found = [finding.caught_by for finding in test.run(trials)]
    assert "step 0: weights norm1.bias is off by 1.0e-02" in str(found[0])
    assert "step 0: updates" in str(found[1])
    assert found[2:] == [None, None]


def test_there_are_twelve_faults_of_different_kinds(tmp_path: Path) -> None:
    assert len({fault.name for fault in FAULTS}) == 12
    for number, fault in enumerate(FAULTS):
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
