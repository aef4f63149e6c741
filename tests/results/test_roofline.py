"""The share of the hardware peak that a trial reaches, in figures that can be checked by hand."""

from pathlib import Path

import pytest

from suite.models import MODELS
from suite.results import roofline
from suite.results.roofline import Best, HardwarePeak
from tests.results.test_record import record

PEAK = HardwarePeak(
    device="cpu",
    best={
        "matmul_float32": Best(work_per_s=100e9, framework="jax"),
        "copy": Best(work_per_s=20e9, framework="mxnet"),
    },
    by_framework={"jax": {"matmul_float32": 100e9}, "mxnet": {"copy": 20e9}},
)


def share(flops: int, bytes_: float) -> str:
    """Both shares at 1000 samples per second, and the bound."""
    of = record(flops_per_sample=flops, bytes_per_sample=bytes_)
    found = roofline.share(of, 1000.0, PEAK)
    assert found is not None
    return f"{found.compute:g} {found.memory:g} {found.bound}"


def test_the_larger_share_decides_which_resource_bounds_a_run() -> None:
    assert share(60_000_000, 1_000_000) == "0.6 0.05 compute"
    assert share(10_000_000, 15_000_000) == "0.1 0.75 memory"
    assert share(40_000_000, 8_000_000) == "0.4 0.4 neither"


def test_without_a_measurement_there_is_no_share() -> None:
    assert roofline.share(record(), 1000.0, None) is None
    assert roofline.share(record(), None, PEAK) is None
    assert roofline.share(record(device="cuda"), 1000.0, PEAK) is None
    assert roofline.share(record(precision="bf16_mixed"), 1000.0, PEAK) is None
    in_tf32 = {"worker": {"device": {"tf32": True}}}
    assert roofline.share(record(environment=in_tf32), 1000.0, PEAK) is None


def test_the_peak_has_the_highest_rate_of_each_operation() -> None:
    rates = {"a": {"copy": 1.0, "matmul_float32": 5.0}, "b": {"copy": 2.0}, "c": {}}
    found = roofline.peak_of("cpu", rates)
    assert found.best["copy"] == Best(work_per_s=2, framework="b")
    assert found.best["matmul_float32"].framework == "a"
    assert (found.device, found.by_framework) == ("cpu", rates)


def test_a_written_peak_is_read_unchanged(tmp_path: Path) -> None:
    assert roofline.read(tmp_path) is None
    roofline.write(tmp_path, PEAK)
    assert roofline.read(tmp_path) == PEAK
    (tmp_path / roofline.NAME).write_text("device: [")
    assert roofline.read(tmp_path) is None


def test_a_peak_in_the_old_file_is_read_where_there_is_no_new_one(tmp_path: Path) -> None:
    roofline.write(tmp_path, PEAK)
    (tmp_path / roofline.NAME).rename(tmp_path / roofline.OLD_NAME)
    assert roofline.read(tmp_path) == PEAK
    newer = PEAK.model_copy(update={"device": "cuda"})
    roofline.write(tmp_path, newer)
    assert roofline.read(tmp_path) == newer


def test_the_minimum_memory_traffic_of_a_sample() -> None:
    """kent_small: 784 values in, 128 out, to 10; its 101,770 weights are shared by the batch."""
    model = MODELS["kent_small"]()
    values = 784 + 128 + 128 + 10
    assert model.bytes_per_sample("infer", 1) == 4 * (values + 101_770)
    expected = 4 * (3 * values + 6 * 101_770 / 64)
    assert model.bytes_per_sample("train", 64) == pytest.approx(expected)
    expected += 4 * 3 * 4 * 101_770 / 64  # three further micro-batches
    assert model.bytes_per_sample("train", 64, accumulate=4) == pytest.approx(expected)


def test_the_traffic_of_branches_is_the_sum_of_theirs() -> None:
    model = MODELS["resnet50"]()
    assert 50e6 < model.bytes_per_sample("infer", 10**9) < 200e6
