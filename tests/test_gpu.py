"""Tests on a real GPU, which the substitute for NVIDIA's library cannot replace.

The frameworks are those of the Pythons in DLSUITE_PYTHON, as for `dlsuite run --python`:

    DLSUITE_PYTHON="pytorch=/usr/bin/python3 jax=/usr/bin/python3" make test
"""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from suite.results import store
from suite.worker import nvidia
from suite.worker.telemetry import Gpu
from tests.cli.test_cli import dlsuite, short_suite

pytestmark = pytest.mark.gpu
PYTHONS = os.environ.get("DLSUITE_PYTHON", "").split()
FRAMEWORKS = [text.partition("=")[0] for text in PYTHONS]
# Keras's usual backend TensorFlow has no build for a GPU.
VARIANTS = {"keras": "keras:jax"}
OPERATIONS = {"matmul_float32", "matmul_tf32", "matmul_bfloat16", "copy"}
CHOSEN = [
    "--gpus",
    "1",
    *(word for each in FRAMEWORKS for word in ("-f", VARIANTS.get(each, each))),
]


def test_nvml_and_nvidia_smi_agree_on_the_first_gpu() -> None:
    gpu = Gpu("0")
    assert gpu.uuid == nvidia.find().gpus[0]["uuid"]
    first = gpu()["gpu"]
    time.sleep(0.2)
    second = gpu()["gpu"]
    assert first["uuid"] == gpu.uuid and first["used_bytes"] > 0
    assert 10 < first["power_w"] < 2000 and 0 <= first["utilisation"] <= 1
    assert 0 < first["sm_clock_mhz"] < 10_000 and 0 < first["temperature_c"] < 120
    if first["energy_j"] is not None:  # GPUs older than Volta have no energy counter
        assert 0 <= second["energy_j"] - first["energy_j"] < 1000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not PYTHONS:
        pytest.skip("DLSUITE_PYTHON names no Python that has a framework")
    return tmp_path_factory.mktemp("gpu")


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    """The folder of a run of LeNet in each framework, on the first GPU."""
    reply = dlsuite("run", short_suite(folder, peak=True), *CHOSEN, folder=folder)
    assert reply.returncode == 0, reply.stderr + reply.stdout
    return folder


def records(folder: Path) -> list[dict[str, Any]]:
    files = store.record_files(folder / "results/latest")
    return [json.loads(path.read_text()) for path in files]


def test_each_framework_is_proven_on_the_gpu(run: Path) -> None:
    found = records(run)
    assert {record["framework"] for record in found} == set(FRAMEWORKS)
    for record in found:
        assert (record["status"], record["device"]) == ("ok", "cuda"), record["error"]
        assert record["parity"]["proven"], record["parity"]["reason"]
        device = record["environment"]["worker"]["device"]
        assert device["kind"] and device["tf32"] is False and device["preallocates"] is False


def test_memory_and_energy_of_the_gpu_are_known(run: Path) -> None:
    for record in records(run):
        gpu = record["telemetry"]["gpu"]
        assert gpu["uuid"] == nvidia.find().gpus[0]["uuid"]
        assert gpu["used_peak_bytes"] > 2**20
        assert gpu["energy"]["gross_j_per_sample"] > gpu["energy"]["net_j_per_sample"] > 0
        if record["framework"] in ("pytorch", "jax", "tensorflow"):
            assert 2**20 < record["memory"]["device_peak_bytes"] < gpu["used_peak_bytes"]


def rates(peak: dict[str, Any]) -> dict[str, float]:
    """The best rate of each operation of a peak."""
    return {name: each["work_per_s"] for name, each in peak["best"].items()}


def test_a_run_measures_the_peak_in_all_precisions(run: Path) -> None:
    report = json.loads(dlsuite("report", "--format", "json", folder=run).stdout)
    assert set(rates(report["peak"])) == OPERATIONS


def test_the_command_peak_measures_all_precisions(folder: Path) -> None:
    reply = dlsuite("peak", *CHOSEN, "--format", "json", folder=folder)
    found = rates(json.loads(reply.stdout))
    assert set(found) == OPERATIONS
    assert found["matmul_bfloat16"] > found["matmul_float32"] > 1e12
    assert found["copy"] > 1e11
