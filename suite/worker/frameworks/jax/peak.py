"""JAX's matrix products and copies, for the device's limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
from jax import lax
from jax import numpy as jnp

from ...protocol import Trial
from . import device as jax_device

_last: list[Any] = []


def operations(
    trial: Trial, precisions: Sequence[str], size: int, values: int
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Each by name: products of matrices (size, size), a copy of so many float32 values."""
    jax_device.prepare(trial)
    for name in precisions:
        dtype = jnp.bfloat16 if name == "bfloat16" else jnp.float32
        a, b = (jax.random.uniform(jax.random.key(i), (size, size)).astype(dtype) for i in range(2))
        precision = lax.Precision.DEFAULT if name == "tf32" else lax.Precision.HIGHEST
        product = jax.jit(partial(jnp.dot, precision=precision))
        yield f"matmul_{name}", partial(_call, product, a, b)
    source = jax.random.uniform(jax.random.key(0), (values,))
    yield "copy", partial(_call, jax.jit(jnp.copy), source)


def synchronize() -> None:
    jax.block_until_ready(_last)


def _call(function: Callable[..., Any], *operands: Any) -> None:
    """What comes of it is kept until the next call: `synchronize` waits for it."""
    _last[:] = [function(*operands)]
