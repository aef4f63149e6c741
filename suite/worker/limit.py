"""What a device can do at most: matrix products in each precision, and copies.

Mode `limit`: each operation alone, large, with its operands lying on the device. The fastest block
counts, for a limit is what is never exceeded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .frameworks import load_limit
from .protocol import Trial

SIZE = {"cpu": 2048, "cuda": 8192}  # of square matrices
COPY_BYTES = {"cpu": 2**28, "cuda": 2**30}  # more than any cache holds
PRECISIONS = {"cpu": ("float32", "bfloat16"), "cuda": ("float32", "tf32", "bfloat16")}
BLOCKS = 8
BLOCK_S = 0.1
# Of one operation. Where a CPU has no instruction for bfloat16, one product may take a minute.
ENOUGH_S = 3.0


@dataclass(frozen=True)
class Operation:
    """`call` does `work` (floating-point operations, or bytes read and written) once."""

    call: Callable[[], Any]
    work: float


def measure(trial: Trial, emit: Callable[..., None]) -> None:
    """Emit what each operation of the framework did in a second, at its best."""
    module = load_limit(trial.framework)
    kind = trial.device.partition(":")[0]
    size, copy_bytes = SIZE[kind], COPY_BYTES[kind]
    for name, call in module.operations(trial, PRECISIONS[kind], size, copy_bytes // 4):
        work = 2 * copy_bytes if name == "copy" else 2 * size**3
        best = _best(Operation(call, work), module.synchronize)
        emit("limit", operation=name, work_per_s=best)


def _best(operation: Operation, synchronize: Callable[[], None]) -> float:
    """Work in a second, of the fastest of several blocks."""
    until = time.perf_counter() + ENOUGH_S
    once_s = min(_blocks(operation, synchronize, 1, 2, until))
    if time.perf_counter() > until:
        return operation.work / once_s
    calls = max(1, round(BLOCK_S / once_s))
    fastest_s = min(_blocks(operation, synchronize, calls, BLOCKS, until))
    return operation.work * calls / fastest_s


def _blocks(
    operation: Operation, synchronize: Callable[[], None], calls: int, most: int, until: float
) -> Iterator[float]:
    """How long each block takes: one at least, none begun after `until`."""
    for number in range(most):
        if number and time.perf_counter() > until:
            return
        yield _block(operation, synchronize, calls)


def _block(operation: Operation, synchronize: Callable[[], None], calls: int) -> float:
    synchronize()
    started = time.perf_counter_ns()
    for _ in range(calls):
        operation.call()
    synchronize()
    return (time.perf_counter_ns() - started) / 1e9
