"""Where the float64 reference is computed, and what is compared before a GPU computes it.

There is no GPU here: the CPU stands for it where a device has to compute.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from suite.datasets import obtain
from suite.engines.venv.engine import VenvEngine
from suite.manifests.devices import DeviceKind, ReferenceChoice
from suite.parity import reference, workers
from suite.parity.keys import of_trial, reference_of
from suite.parity.prover import Prover
from suite.parity.reference import Reference
from suite.parity.tensors import Tensors
from suite.parity.workers import LOWERINGS, reference_settings
from suite.protocol.plan import Plan
from suite.runner import peak, reference_device
from suite.runner.frameworks import Frameworks
from suite.runner.reference_device import Placing
from tests.conftest import made_up


@pytest.fixture
def placing(quick: Callable[..., Plan], tmp_path: Path) -> Placing:
    trial = replace(quick("pytorch").trials[0], device="cuda")
    engine = VenvEngine()
    (tmp_path / "work").mkdir()
    return Placing(
        engine=engine,
        prepared=Frameworks(engine, print).with_reference(),
        trial=trial,
        inputs=made_up(trial.workload, tmp_path / "made"),
        work_dir=tmp_path / "work",
        notify=print,
    )


@pytest.mark.parametrize("choice", ["auto", "device"])
def test_without_a_gpu_it_is_the_cpu(placing: Placing, choice: ReferenceChoice) -> None:
    """With `auto` the rate is unknown, with `device` the small model cannot be computed there."""
    assert placing.place(choice) == "cpu"


def test_the_faster_device_computes_it(
    placing: Placing, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Placing, "_difference", lambda self, kind: None)
    rates = {"cpu": 9e11, "cuda": 6e13}
    monkeypatch.setattr(Placing, "rate", lambda self, kind: rates[kind])
    assert placing.place("auto") == "cuda" and placing.place("cpu") == "cpu"
    assert "60.00 TFLOP/s on the GPU, 0.90 on the CPU" in capsys.readouterr().out
    rates["cuda"] = 4e11  # a card for desktops beside many cores
    assert placing.place("auto") == "cpu" and placing.place("device") == "cuda"
    on_cpu = replace(placing, trial=replace(placing.trial, device="cpu"))
    assert on_cpu.place("device") == "cpu"


def test_the_rate_in_float64_is_measured_once_a_day(
    placing: Placing, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = placing.rate("cpu")
    assert found is not None and 1e8 < found < 1e14
    monkeypatch.setattr(peak, "rates", None)  # would be called otherwise
    assert placing.rate("cpu") == found


@pytest.mark.verify
def test_a_device_that_computes_something_else_is_not_used(
    placing: Placing, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The CPU agrees with itself; a copy of it with a relative error of 1e-8 does not."""
    assert placing._difference("cpu") is None
    computed = Reference.computed

    def wrong(
        self: Reference, which: tuple[str, str], precision: str, draw: int = 0
    ) -> list[Tensors]:
        steps = computed(self, which, precision, draw)
        return [step | {"logits": step["logits"] * (1 + 1e-8)} for step in steps]

    monkeypatch.setattr(
        Reference, "_all", lambda self, wanted: [self._cached(*each) for each in wanted]
    )
    expected = reference_of_small(placing)
    _ = expected.tensors  # in the cache before the fault
    monkeypatch.setattr(Reference, "computed", wrong)
    problem = placing._difference("cpu")
    assert problem and "differs from it by 1.0e-08 in logits" in problem
    assert placing.place("device") == "cpu"
    assert "warning: the float64 reference is computed on the CPU" in capsys.readouterr().out


def reference_of_small(placing: Placing) -> Reference:
    folder = placing.work_dir / "again"
    folder.mkdir()
    trial = replace(placing.trial, workload=reference_device.SMALL, device="cpu", seed=1)
    inputs = obtain.obtain(reference_device.SMALL, seed=1, folder=folder / "inputs", notify=print)
    prover = Prover(
        engine=placing.engine,
        prepared=dict(placing.prepared),
        inputs=inputs,
        steps=reference_device.STEPS,
        work_dir=folder,
        notify=print,
    )
    return reference_of(prover, trial)


@pytest.mark.verify
def test_the_settings_of_a_gpu_change_no_bit_on_the_same_device(
    placing: Placing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lowerings as on a GPU, with deterministic algorithms, but on the CPU."""
    expected = reference_of_small(placing)
    usual = [expected.computed(each, "float64") for each in LOWERINGS]

    def as_on_gpu(framework: str, device: DeviceKind) -> object:
        return reference_settings(framework, "cuda")

    monkeypatch.setattr(reference, "reference_settings", as_on_gpu)
    for lowering, steps in zip(LOWERINGS, usual, strict=True):
        again = replace(
            expected, prover=replace(expected.prover, work_dir=new(placing, lowering[0]))
        )
        for step, other in zip(again.computed(lowering, "float64"), steps, strict=True):
            assert all(np.array_equal(step[name], other[name]) for name in other)


def new(placing: Placing, name: str) -> Path:
    folder = placing.work_dir / name
    folder.mkdir()
    return folder


def test_a_reference_on_another_device_has_its_own_key_and_name(placing: Placing) -> None:
    trial = placing.trial
    on_gpu = replace(trial, reference="cuda")
    architecture = placing.inputs.architecture
    assert "reference" not in of_trial(trial, architecture, 3)
    assert of_trial(on_gpu, architecture, 3)["reference"] == "cuda"
    prover = Prover(
        engine=placing.engine,
        prepared=dict(placing.prepared),
        inputs=placing.inputs,
        steps=3,
        work_dir=placing.work_dir,
        notify=print,
    )
    assert reference_of(prover, trial).key != reference_of(prover, on_gpu).key
    lowered = reference_of(prover, on_gpu)._lowered(LOWERINGS[0])
    assert lowered.device == "cuda" and lowered.runtime.settings == {"deterministic": True}
    assert lowered.runtime.environment["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert set(workers.DETERMINISTIC) == set(workers.FRAMEWORKS)
