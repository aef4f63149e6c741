"""Mode `peak`: the highest rate of a device at matrix products in each precision, and at copies.

Each operation runs alone, with large operands that are already on the device. The fastest block
counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .frameworks import load_peak
from .protocol import Trial

SIZE = {"cpu": 2048, "cuda": 8192, "tpu": 8192}  # of square matrices
COPY_BYTES = {"cpu": 2**28, "cuda": 2**30, "tpu": 2**30}  # larger than any cache
BLOCKS = 8
BLOCK_S = 0.05
MAX_OPERATION_S = 2.0


@dataclass(frozen=True)
class Operation:
    """`call` does `work` once: floating-point operations, or bytes read and written."""

    call: Callable[[], Any]
    work: float


def measure(trial: Trial, emit: Callable[..., None]) -> None:
    """Emit the highest rate (work per second) of each operation of the framework."""
    module = load_peak(trial.framework)
    kind = trial.device.partition(":")[0]
    size, copy_bytes = SIZE[kind], COPY_BYTES[kind]
    for name, call in module.operations(trial, trial.precisions, size, copy_bytes // 4):
        work = 2 * copy_bytes if name == "copy" else 2 * size**3
        best = _best(Operation(call, work), module.synchronize)
        emit("peak", operation=name, work_per_s=best)


def _best(operation: Operation, synchronize: Callable[[], None]) -> float:
    """Work per second in the fastest of several blocks."""
    until = time.perf_counter() + MAX_OPERATION_S
    once_s = min(_blocks(operation, synchronize, 1, 2, until))
    if time.perf_counter() > until:
        return operation.work / once_s
    calls = max(1, round(BLOCK_S / once_s))
    fastest_s = min(_blocks(operation, synchronize, calls, BLOCKS, until))
    return operation.work * calls / fastest_s


def _blocks(
    operation: Operation, synchronize: Callable[[], None], calls: int, most: int, until: float
) -> Iterator[float]:
    """The duration of each block in seconds; at least one block, and no other after `until`."""
    for number in range(most):
        if number and time.perf_counter() > until:
            return
        yield _block(operation, synchronize, calls)


def _block(operation: Operation, synchronize: Callable[[], None], calls: int) -> float:
    """The duration of `calls` calls in seconds."""
    synchronize()
    started = time.perf_counter_ns()
    for _ in range(calls):
        operation.call()
    synchronize()
    return (time.perf_counter_ns() - started) / 1e9
