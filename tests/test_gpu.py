"""On a real GPU: what the fake library cannot show.

The frameworks are those of the user's own Pythons, as `dlsuite run --python` takes them:

    DLSUITE_PYTHON="pytorch=/usr/bin/python3 jax=/usr/bin/python3" make test
"""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from suite.worker import host
from suite.worker.telemetry import Gpu
from tests.cli.test_cli import dlsuite, short_suite

pytestmark = pytest.mark.gpu
PYTHONS = os.environ.get("DLSUITE_PYTHON", "").split()
FRAMEWORKS = [text.partition("=")[0] for text in PYTHONS]


def test_nvml_tells_of_the_first_gpu_what_nvidia_smi_does() -> None:
    gpu = Gpu("0")
    assert gpu.uuid == host.gpus()[0]["uuid"]
    first = gpu()["gpu"]
    time.sleep(0.2)
    second = gpu()["gpu"]
    assert first["uuid"] == gpu.uuid and first["used_bytes"] > 0
    assert 10 < first["power_w"] < 2000 and 0 <= first["utilisation"] <= 1
    assert 0 < first["sm_clock_mhz"] < 10_000 and 0 < first["temperature_c"] < 120
    if first["energy_j"] is not None:  # older than Volta: none
        assert 0 <= second["energy_j"] - first["energy_j"] < 1000


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """LeNet in each of the frameworks, proven and measured on the first GPU."""
    if not PYTHONS:
        pytest.skip("DLSUITE_PYTHON names no Python that has a framework")
    folder = tmp_path_factory.mktemp("gpu")
    named = [word for framework in FRAMEWORKS for word in ("-f", framework)]
    reply = dlsuite("run", short_suite(folder, limit=True), "--gpus", "1", *named, folder=folder)
    assert reply.returncode == 0, reply.stderr + reply.stdout
    return folder


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in (folder / "results/latest").glob("*.json")]


def test_each_framework_is_proven_on_the_gpu_itself(run: Path) -> None:
    found = records(run)
    assert {record["framework"] for record in found} == set(FRAMEWORKS)
    for record in found:
        assert (record["status"], record["device"]) == ("ok", "cuda:0"), record["error"]
        assert record["parity"]["proven"], record["parity"]["reason"]
        told = record["environment"]["worker"]["device"]
        assert told["kind"] and told["tf32"] is False and told["preallocates"] is False


def test_memory_and_energy_of_the_gpu_are_known(run: Path) -> None:
    for record in records(run):
        gpu = record["telemetry"]["gpu"]
        assert gpu["uuid"] == host.gpus()[0]["uuid"]
        assert gpu["used_peak_bytes"] > 2**20
        assert gpu["energy"]["gross_j_per_sample"] > gpu["energy"]["net_j_per_sample"] > 0
        if record["framework"] in ("pytorch", "jax", "tensorflow"):
            assert 2**20 < record["memory"]["device_peak_bytes"] < gpu["used_peak_bytes"]


def test_the_limit_of_the_gpu_has_all_its_precisions(run: Path) -> None:
    best = json.loads(dlsuite("report", "--format", "json", folder=run).stdout)["limit"]["best"]
    rates = {name: each["work_per_s"] for name, each in best.items()}
    assert {"matmul_float32", "matmul_tf32", "matmul_bfloat16", "copy"} == set(rates)
    assert rates["matmul_bfloat16"] > rates["matmul_float32"] > 1e12
    assert rates["copy"] > 1e11
