"""JAX's matrix products and copies, for the hardware peak."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
from jax import lax
from jax import numpy as jnp

from ...protocol import Trial
from . import device

_last: list[Any] = []  # the result of the last call


def operations(
    trial: Trial, precisions: Sequence[str], size: int, values: int
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The operations by name: products of matrices (size, size), a copy of `values` numbers."""
    device.prepare(trial)
    for name in precisions:
        dtype = jnp.bfloat16 if name == "bfloat16" else jnp.float32
        a, b = (jax.random.uniform(jax.random.key(i), (size, size)).astype(dtype) for i in range(2))
        precision = lax.Precision.DEFAULT if name == "tf32" else lax.Precision.HIGHEST
        product = jax.jit(partial(jnp.dot, precision=precision))
        yield f"matmul_{name}", partial(_call, product, a, b)
    source = jax.random.uniform(jax.random.key(0), (values,))
    yield "copy", partial(_call, jax.jit(jnp.copy), source)


def synchronize() -> None:
    """Wait for the last call."""
    jax.block_until_ready(_last)


def _call(function: Callable[..., Any], *operands: Any) -> None:
    """Call the function; its result is kept for `synchronize` until the next call."""
    _last[:] = [function(*operands)]
