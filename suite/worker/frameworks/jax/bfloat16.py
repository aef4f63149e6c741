"""The rounding of `bf16_mixed`, simulated in float64 for the tolerances of its proofs.

Rounded to bfloat16, as by Flax with `dtype=bfloat16`: the input, the result of each layer, and the
parameters of layers with products; in the backward pass, the gradients of all these. An LSTM is
rounded only outside: its cell computes in float64.
"""

from __future__ import annotations

from typing import Any

import jax
from jax import numpy as jnp

UNROUNDED = ("batch_norm", "layer_norm", "class_token", "position_embedding")


@jax.custom_vjp  # type: ignore[untyped-decorator]
def rounded(values: Any) -> Any:
    """The values rounded to bfloat16, in their own type; their gradient is rounded too."""
    return values.astype(jnp.bfloat16).astype(values.dtype)


rounded.defvjp(lambda values: (rounded(values), None), lambda _, gradient: (rounded(gradient),))


@jax.custom_vjp  # type: ignore[untyped-decorator]
def tanh(values: Any) -> Any:
    """A tanh whose gradient is computed from the rounded result, as by all frameworks."""
    return rounded(jnp.tanh(values))


def _tanh(values: Any) -> tuple[Any, Any]:
    result = tanh(values)
    return result, result


tanh.defvjp(_tanh, lambda result, gradient: (rounded(gradient * (1 - result * result)),))


def with_rounded_products(params: dict[str, Any], kinds: dict[str, str]) -> dict[str, Any]:
    """The parameters, those of layers with products rounded; `kinds` of the layers by name."""
    return {
        name: part if kinds[name] in UNROUNDED else jax.tree.map(rounded, part)
        for name, part in params.items()
    }
