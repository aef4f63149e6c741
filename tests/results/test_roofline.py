"""How near a trial comes to what the device can do, in figures that can be worked out by hand."""

from pathlib import Path

import pytest

from suite.models import MODELS
from suite.runner import peak
from suite.runner.peak import Best, HardwarePeak
from tests.test_records import record

LIMIT = HardwarePeak(
    device="cpu",
    best={
        "matmul_float32": Best(work_per_s=100e9, framework="jax"),
        "copy": Best(work_per_s=20e9, framework="mxnet"),
    },
    by_framework={"jax": {"matmul_float32": 100e9}, "mxnet": {"copy": 20e9}},
)


def near(flops: int, bytes_: float) -> str:
    found = peak.share(record(flops_per_sample=flops, bytes_per_sample=bytes_), 1000.0, LIMIT)
    assert found is not None
    return f"{found.compute:g} {found.memory:g} {found.near}"


def test_the_greater_share_says_what_a_row_is_near_to() -> None:
    assert near(60_000_000, 1_000_000) == "0.6 0.05 compute"
    assert near(10_000_000, 15_000_000) == "0.1 0.75 memory"
    assert near(40_000_000, 8_000_000) == "0.4 0.4 neither"


def test_what_was_not_measured_gives_no_share() -> None:
    assert peak.share(record(), 1000.0, None) is None
    assert peak.share(record(), None, LIMIT) is None
    assert peak.share(record(device="cuda:0"), 1000.0, LIMIT) is None
    assert peak.share(record(precision="bfloat16"), 1000.0, LIMIT) is None
    in_tf32 = {"worker": {"device": {"tf32": True}}}
    assert peak.share(record(environment=in_tf32), 1000.0, LIMIT) is None


def test_the_best_of_each_operation_counts() -> None:
    told = {"a": {"copy": 1.0, "matmul_float32": 5.0}, "b": {"copy": 2.0}, "c": {}}
    best = limit._best(told)
    assert best["copy"] == Best(work_per_s=2, framework="b")
    assert best["matmul_float32"].framework == "a"


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    assert peak.read(tmp_path) is None
    peak.write(tmp_path, LIMIT)
    assert peak.read(tmp_path) == LIMIT
    (tmp_path / peak.NAME).write_text("device: [")
    assert peak.read(tmp_path) is None


def test_the_least_traffic_of_a_sample() -> None:
    """kent_small: 784 values in, 128 out, to 10; its 101,770 weights are shared by the batch."""
    model = MODELS["kent_small"]()
    values = 784 + 128 + 128 + 10
    assert model.bytes_per_sample("infer", 1) == 4 * (values + 101_770)
    expected = 4 * (3 * values + 6 * 101_770 / 64)
    assert model.bytes_per_sample("train", 64) == pytest.approx(expected)


def test_the_traffic_of_branches_is_theirs_together() -> None:
    model = MODELS["resnet50"]()
    assert 50e6 < model.bytes_per_sample("infer", 10**9) < 200e6
