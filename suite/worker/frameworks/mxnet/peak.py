"""MXNet's matrix products and copies, for the hardware peak."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import mxnet as mx

from ...protocol import Trial


def operations(
    trial: Trial, precisions: Sequence[str], size: int, values: int
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The operations by name: products of matrices (size, size), a copy of `values` numbers."""
    context = mx.cpu() if trial.device == "cpu" else mx.gpu()
    a, b = (mx.nd.random.uniform(shape=(size, size), ctx=context) for _ in range(2))
    c = mx.nd.empty((size, size), ctx=context)
    if "float32" in precisions:  # MXNet supports no other of them
        yield "matmul_float32", lambda: mx.nd.dot(a, b, out=c)
    source = mx.nd.random.uniform(shape=(values,), ctx=context)
    target = mx.nd.empty((values,), ctx=context)
    yield "copy", lambda: source.copyto(target)


def synchronize() -> None:
    """Wait for all operations."""
    mx.nd.waitall()
