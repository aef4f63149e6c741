"""The rounding of `bf16_mixed`, simulated in float64 for the tolerances of its proofs.

Rounded to bfloat16, as by Flax with `dtype=bfloat16`: the input, the result of each layer, and the
parameters of layers with products; in the backward pass, the gradients of all these.
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


def with_rounded_products(params: dict[str, Any], kinds: dict[str, str]) -> dict[str, Any]:
    """The parameters, those of layers with products rounded; `kinds` of the layers by name."""
    return {
        name: part if kinds[name] in UNROUNDED else jax.tree.map(rounded, part)
        for name, part in params.items()
    }
