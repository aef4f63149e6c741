"""PaddlePaddle's matrix products and copies, for the hardware peak."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import paddle

from ...protocol import Trial
from . import device


def operations(
    trial: Trial, precisions: Sequence[str], size: int, values: int
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The operations by name: products of matrices (size, size), a copy of `values` numbers."""
    device.prepare(trial)
    a, b = (paddle.rand([size, size]) for _ in range(2))
    if "float32" in precisions:  # on a CPU PaddlePaddle multiplies no bfloat16
        yield "matmul_float32", partial(paddle.matmul, a, b)
    source = paddle.rand([values])
    target = paddle.empty_like(source)
    yield "copy", partial(paddle.assign, source, target)


def synchronize() -> None:
    """On the CPU every operation is done when it returns."""
