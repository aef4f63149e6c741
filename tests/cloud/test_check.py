"""A rented machine is compared with its offer before anything is measured."""

import json
from pathlib import Path

import pytest

from suite.cloud.check import check
from suite.errors import EngineError, UsageError
from suite.results.rental import VARIABLE
from tests.results.test_rental import VALUES

ROW = "GPU-1, NVIDIA {name}, {driver}, 81920 MiB, Default"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The offer of one A100, and a folder of programs."""
    path = tmp_path / "offer.json"
    path.write_text(json.dumps({**VALUES, "vcpus": 1.0, "memory_gib": 1.0}))
    monkeypatch.setenv(VARIABLE, str(path))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def smi(folder: Path, script: str) -> None:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_a_machine_as_offered_is_described(machine: Path) -> None:
    smi(machine, f"echo '{ROW.format(name='A100 80GB PCIe', driver='590.1')}'")
    lines = list(check())
    assert lines[0].startswith("p5.4xlarge at aws/us-east-1: ")
    assert "GPU NVIDIA A100 80GB PCIe, driver 590.1" in lines
    assert not any("warning" in line for line in lines)


def test_another_gpu_is_a_warning(machine: Path) -> None:
    smi(machine, f"echo '{ROW.format(name='L4', driver='590.1')}'")
    assert "warning: offered A100-80GB, found NVIDIA L4" in list(check())


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'Driver/library version mismatch' >&2; exit 18", "mismatch"),
        (f"echo '{ROW.format(name='A100', driver='390.1')}'", "needs NVIDIA's driver"),
        ("exit 0", "the offer has 1 GPUs"),
    ],
)
def test_a_machine_that_cannot_compute_is_refused(machine: Path, script: str, reason: str) -> None:
    smi(machine, script)
    with pytest.raises(EngineError, match=reason):
        list(check())


def test_without_an_offer_there_is_nothing_to_compare() -> None:
    with pytest.raises(UsageError, match="DLSUITE_OFFER names no offer"):
        list(check())
