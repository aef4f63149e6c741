"""Figures that contradict each other, and rates that no device reaches."""

from typing import Any

import pytest

from suite.results.record import Block, Epoch, Record
from suite.runner.peak import Best, HardwarePeak
from suite.runner.plausibility import problem
from tests.test_records import record

LIMIT = HardwarePeak(
    device="cpu",
    best={
        "matmul_float32": Best(work_per_s=1e9, framework="pytorch"),
        "copy": Best(work_per_s=1e10, framework="jax"),
    },
    by_framework={},
)
EPOCH = Epoch(epoch=1, duration_s=1, train_loss=1, train_accuracy=1, test_loss=1, test_accuracy=1)


def block(number: int, **changes: Any) -> Block:
    """Ten steps in a second, the clock read 1 ms after its end."""
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


def said(*blocks: Block, **changes: Any) -> Record:
    values = {"steps": 40, "optimizer_steps": 40, "samples_per_s": 640.0, **changes}
    return record(blocks=blocks or tuple(map(block, range(1, 5))), **values)


def found(run: Record, epochs: int = 0, limit: HardwarePeak | None = LIMIT) -> str | None:
    error = problem(run, epochs, limit)
    assert error is None or error.error_class == "Impossible"
    return error.message if error else None


def test_a_run_of_sound_figures_has_no_problem() -> None:
    assert found(said()) is None
    assert found(said(epochs=(EPOCH,)), epochs=1) is None
    unknown = tuple(block(n, step=None, loss_wait_s=None) for n in range(1, 5))
    assert found(said(*unknown, steps=None, optimizer_steps=None)) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"monotonic_ns": 1_000_000_000}, "the clock ran backwards by 1 s before block 3"),
        ({"duration_s": 2.0}, "block 3 is said to have taken 2 s, 1 s after"),
        ({"step": 29}, "block 3 is of 10 steps, but 9 were done"),
    ],
)
def test_blocks_that_contradict_each_other(changes: dict[str, Any], words: str) -> None:
    blocks = [block(1), block(2), block(3, **changes), block(4)]
    assert words in str(found(said(*blocks)))


def test_steps_and_epochs_that_were_not_done() -> None:
    assert found(said(optimizer_steps=20)) == "the optimiser did 20 steps where 40 were timed"
    assert found(said(), epochs=1) == "0 of 1 epochs were done"


def test_a_device_that_still_computes_when_the_clock_stops() -> None:
    late = tuple(block(n, loss_wait_s=0.3) for n in range(1, 5))
    assert "the loss came another 30% of each block later, or more" in str(found(said(*late)))
    stalled = (*map(block, (1, 2)), block(3, loss_wait_s=0.3), block(4))
    assert found(said(*stalled)) is None  # by the machine, or a thread that had to wake up


def test_a_rate_beyond_the_limit() -> None:
    enough = {"flops_per_sample": 1_000_000, "samples_per_s": 1040.0}
    assert found(said(**enough)) is None  # 1.04 of it: the limit is a measurement too
    beyond = said(**{**enough, "samples_per_s": 1100.0})
    assert "1.10 times what this device was measured to do at most (compute)" in str(found(beyond))
    assert found(beyond, limit=None) is None
    assert found(beyond, limit=LIMIT.model_copy(update={"device": "cuda:0"})) is None


def test_memory_counts_only_where_no_cache_can_hold_a_step() -> None:
    perturbed = said(bytes_per_sample=1e8, samples_per_s=110.0)  # 64 samples: 6.4 GB a step
    assert "(memory)" in str(found(perturbed))
    cached = perturbed.model_copy(update={"bytes_per_sample": 1e6, "samples_per_s": 11_000.0})
    assert found(cached) is None


def test_convolutions_on_a_gpu_may_multiply_less_than_their_definition_says() -> None:
    limit = LIMIT.model_copy(update={"device": "cuda:0"})
    run = said(flops_per_sample=1_000_000, samples_per_s=3000.0, device="cuda:0", model="vgg16")
    assert found(run, limit=limit) is None
    assert found(run.model_copy(update={"model": "db_mlp"}), limit=limit) is not None
