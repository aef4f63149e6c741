"""Figures that contradict each other, and rates above the hardware peak."""

from typing import Any

import pytest

from suite.results.blocks import Block, Blocks
from suite.results.record import Epoch, Record
from suite.results.roofline import Best, HardwarePeak
from suite.runner.plausibility import problem
from tests.results.test_record import record

PEAK = HardwarePeak(
    device="cpu",
    best={
        "matmul_float32": Best(work_per_s=1e9, framework="pytorch"),
        "copy": Best(work_per_s=1e10, framework="jax"),
    },
    by_framework={},
)
EPOCH = Epoch(epoch=1, duration_s=1, train_loss=1, train_accuracy=1, test_loss=1, test_accuracy=1)


def block(number: int, **changes: Any) -> Block:
    """Ten steps in one second; the clock is read 1 ms after the end of the block."""
    values: dict[str, Any] = {
        "warmup": number < 2,
        "monotonic_ns": number * 1_001_000_000,
        "steps": 10,
        "step": 10 * number,
        "duration_s": 1.0,
        "samples_per_s": 640.0,
        "loss": 1 / number,
        "loss_wait_s": 0.001,
    }
    return Block(**{**values, **changes})


def recorded(*blocks: Block, **changes: Any) -> Record:
    """The record of a run with these blocks, by default four plausible ones."""
    values = {"steps": 40, "optimizer_steps": 40, "samples_per_s": 640.0, **changes}
    return record(blocks=Blocks.of(blocks or map(block, range(1, 5))), **values)


def found(run: Record, epochs: int = 0, peak: HardwarePeak | None = PEAK) -> str | None:
    """The message of the problem that is found in a run."""
    error = problem(run, epochs, peak)
    assert error is None or error.error_class == "Impossible"
    return error.message if error else None


def test_plausible_figures_have_no_problem() -> None:
    assert found(recorded()) is None
    assert found(recorded(epochs=(EPOCH,)), epochs=1) is None
    unknown = tuple(block(n, step=None, loss_wait_s=None) for n in range(1, 5))
    assert found(recorded(*unknown, steps=None, optimizer_steps=None)) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"monotonic_ns": 1_000_000_000}, "the clock ran backwards by 1 s before block 3"),
        ({"duration_s": 2.0}, "block 3 reports 2 s, but ended 1 s after the block before it"),
        ({"step": 29}, "block 3 reports 10 steps, but only 9 were done"),
    ],
)
def test_blocks_that_contradict_each_other(changes: dict[str, Any], message: str) -> None:
    blocks = [block(1), block(2), block(3, **changes), block(4)]
    assert message in str(found(recorded(*blocks)))


def test_steps_and_epochs_that_were_not_done() -> None:
    idle = recorded(optimizer_steps=20)
    assert found(idle) == "the optimizer did 20 steps, but 40 were timed"
    assert found(recorded(), epochs=1) == "0 of 1 epochs were done"


def test_a_device_that_still_computes_when_the_clock_stops() -> None:
    late = recorded(*(block(n, loss_wait_s=0.3) for n in range(1, 5)))
    assert "the loss came at least 30% of a block later, after every block" in str(found(late))
    stalled = recorded(*map(block, (1, 2)), block(3, loss_wait_s=0.3), block(4))
    assert found(stalled) is None  # the machine stalled, or a thread woke up late


def test_a_rate_above_the_peak() -> None:
    slower: dict[str, Any] = {"flops_per_sample": 1_000_000, "samples_per_s": 1040.0}
    assert found(recorded(**slower)) is None  # 1.04 times the peak, which is a measurement too
    faster = recorded(**{**slower, "samples_per_s": 1100.0})
    assert "1.10 times the measured peak of this device (compute)" in str(found(faster))
    assert found(faster, peak=None) is None
    assert found(faster, peak=PEAK.model_copy(update={"device": "cuda"})) is None


def test_traffic_counts_only_where_no_cache_can_hold_a_step() -> None:
    large = recorded(bytes_per_sample=1e8, samples_per_s=110.0)  # 64 samples: 6.4 GB a step
    assert "(memory)" in str(found(large))
    cached = large.model_copy(update={"bytes_per_sample": 1e6, "samples_per_s": 11_000.0})
    assert found(cached) is None


def test_convolutions_on_a_gpu_may_need_fewer_multiplications_than_their_definition() -> None:
    peak = PEAK.model_copy(update={"device": "cuda"})
    values = {"flops_per_sample": 1_000_000, "samples_per_s": 3000.0, "device": "cuda"}
    assert found(recorded(**values, model="vgg16"), peak=peak) is None
    assert found(recorded(**values, model="db_mlp"), peak=peak) is not None
