"""TPU chips: found among the PCI devices; no test here has one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from suite.engines import accelerators
from suite.engines.attempt import run_task
from suite.engines.choice import engine as chosen_engine
from suite.engines.options import EngineOptions
from suite.engines.venv import environments
from suite.engines.venv.engine import VenvEngine
from suite.errors import EngineError, UsageError
from suite.manifests import catalog
from suite.manifests.devices import KINDS, DeviceKind, Devices
from suite.manifests.frameworks import FrameworkManifest
from suite.models import MODELS
from suite.protocol.plan import Plan
from suite.protocol.trial_file import Task
from tests.conftest import made_up


@pytest.fixture
def pci(tmp_path: Path) -> Path:
    for address, vendor in {
        "0000:00:05.0": "0x1ae0",
        "0000:00:04.0": "0x1ae0",
        "0000:00:03.0": "0x8086",
    }.items():
        folder = tmp_path / "pci" / address
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(f"{vendor}\n")
    (tmp_path / "pci" / "0000:00:06.0").mkdir()  # a device that does not say its vendor
    return tmp_path / "pci"


def test_the_first_chips_are_chosen(pci: Path) -> None:
    assert accelerators.chips(pci) == ["0000:00:04.0", "0000:00:05.0"]
    assert accelerators.chosen(1, pci) == ["0000:00:04.0"]
    with pytest.raises(EngineError, match="--tpus 4: this machine has 2 TPU chips"):
        accelerators.chosen(4, pci)
    assert accelerators.chips(pci / "missing") == []


def test_a_worker_sees_only_the_chosen_chips(pci: Path) -> None:
    two = accelerators.visible(accelerators.chosen(2, pci))
    assert two["TPU_VISIBLE_CHIPS"] == "0,1"
    assert two["TPU_CHIPS_PER_PROCESS_BOUNDS"] == "2,1,1"
    assert accelerators.visible([]) == {}


def test_tpus_are_those_of_virtual_environments() -> None:
    assert EngineOptions(tpus=1).device == "tpu" and EngineOptions(tpus=4).device == "tpu:4"
    with pytest.raises(UsageError, match="exclude each other"):
        _ = EngineOptions(tpus=1, gpus="1").device
    with (
        pytest.raises(UsageError, match="--tpus works only with the venv engine"),
        chosen_engine(EngineOptions(tpus=1, engine="docker"), ("jax",), "a1", print),
    ):
        pass
    with pytest.raises(EngineError, match="this machine has 0 TPU chips"):
        VenvEngine(tpus=1)


def test_jax_gets_the_lock_for_tpus_and_the_reference_that_for_the_cpu(
    monkeypatch: pytest.MonkeyPatch, pci: Path
) -> None:
    monkeypatch.setattr(accelerators, "PCI", pci)
    found: dict[str, DeviceKind] = {}

    def ready(manifest: FrameworkManifest, *_: object, kind: DeviceKind, **__: object) -> None:
        found[manifest.name] = kind

    monkeypatch.setattr(environments, "ready", ready)
    engine = VenvEngine(tpus=2)
    for name in ("jax", "pytorch"):
        engine.prepare(catalog.framework(name), print)
    assert found == {"jax": "tpu", "pytorch": "cpu"}


def test_only_jax_takes_tpus() -> None:
    workload = catalog.suite("quick").workloads[0]
    layers = {layer.kind for layer in MODELS["lenet"]().leaves()}
    reasons = {
        name: framework.unsupported_reason(
            variant=next(iter(framework.variants)),
            devices=Devices.parse("tpu"),
            layers=layers,
            workload=workload,
        )
        for name, framework in catalog.frameworks().items()
    }
    assert reasons["jax"] is None and "TPU" in str(reasons["pytorch"])
    assert not KINDS["tpu"].has_run


def test_jax_without_a_tpu_says_so_in_one_line(quick: Callable[..., Plan], tmp_path: Path) -> None:
    trial = replace(quick("jax").trials[0], device="tpu")
    engine = VenvEngine()
    attempt = run_task(
        engine,
        engine.prepare(catalog.framework("jax"), print),
        Task(trial=trial, inputs=made_up(trial.workload, tmp_path), mode="train"),
        tmp_path / "trial",
        name="no-tpu",
        log=tmp_path / "log",
        deadline_s=120,
    )
    assert attempt.status == "failed" and attempt.error is not None
    assert "tpu" in attempt.error.message and "\n" not in attempt.error.message
