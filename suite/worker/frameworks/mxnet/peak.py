"""MXNet's matrix products and copies, for the device's limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import mxnet as mx

from ...protocol import Trial


def operations(
    trial: Trial, precisions: Sequence[str], size: int, values: int
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Each by name: products of matrices (size, size), a copy of so many float32 values."""
    context = mx.cpu() if trial.device == "cpu" else mx.gpu()
    a, b = (mx.nd.random.uniform(shape=(size, size), ctx=context) for _ in range(2))
    c = mx.nd.empty((size, size), ctx=context)
    if "float32" in precisions:  # it has no other
        yield "matmul_float32", lambda: mx.nd.dot(a, b, out=c)
    source = mx.nd.random.uniform(shape=(values,), ctx=context)
    target = mx.nd.empty((values,), ctx=context)
    yield "copy", lambda: source.copyto(target)


def synchronize() -> None:
    mx.nd.waitall()
