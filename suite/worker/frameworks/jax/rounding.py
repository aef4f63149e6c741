"""The rounding of bfloat16 or TF32, simulated in float64 for the tolerances of proofs.

Rounded, as by Flax with `dtype=bfloat16`: the input, the result of each layer, and the parameters
of layers with products; in the backward pass, the gradients of all these. An LSTM or a GRU is
rounded only outside: its cell computes in float64.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from ...protocol import Trial

EXPONENT_BITS = 8  # of float32, bfloat16 and TF32
UNROUNDED = (
    *("batch_norm", "layer_norm", "group_norm", "rms_norm"),
    *("scale", "class_token", "position_embedding"),
)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def rounded(bits: int, values: Any) -> Any:
    """The values rounded to the nearest number of so many bits; their gradient is rounded too."""
    return _to(bits, values)


def _to(bits: int, values: Any) -> Any:
    return lax.reduce_precision(values, EXPONENT_BITS, bits - 1)  # the first bit is implicit


rounded.defvjp(
    lambda bits, values: (rounded(bits, values), None),
    lambda bits, _, gradient: (rounded(bits, gradient),),
)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def tanh(bits: int, values: Any) -> Any:
    """A tanh whose gradient is computed from the rounded result, as by all frameworks."""
    return rounded(bits, jnp.tanh(values))


def _tanh(bits: int, values: Any) -> tuple[Any, Any]:
    result = tanh(bits, values)
    return result, result


tanh.defvjp(
    _tanh, lambda bits, result, gradient: (rounded(bits, gradient * (1 - result * result)),)
)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def attention(
    bits: int, causal: bool, queries: Any, keys: Any, values: Any, bias: Any = None
) -> Any:
    """Attention as by fused kernels (FlashAttention, Dao et al. 2022), with rounded operands.

    All are (batch, length, heads, features of a head); `bias` has the shape of the scores, (batch,
    heads, length, length). The gradient of the softmax is computed from the rounded result, not
    from the sum over keys.
    """
    return _attention(bits, causal, queries, keys, values, bias)[0]


def _attention(
    bits: int, causal: bool, queries: Any, keys: Any, values: Any, bias: Any = None
) -> tuple[Any, Any]:
    shares = attention_shares(queries, keys, causal=causal, bias=bias)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", _to(bits, shares), values)
    mixed = _to(bits, mixed)
    return mixed, (queries, keys, values, shares, mixed, bias)


def _attention_gradients(bits: int, _: bool, kept: Any, gradient: Any) -> tuple[Any, ...]:
    queries, keys, values, shares, mixed, bias = kept
    gradient = _to(bits, gradient)
    of_shares = jnp.einsum("bqhd,bkhd->bhqk", gradient, values)
    mean = jnp.einsum("bqhd,bqhd->bhq", gradient, mixed)[..., None]
    of_bias = _to(bits, shares * (of_shares - mean))
    of_scores = of_bias / np.sqrt(queries.shape[-1])
    return (
        jnp.einsum("bhqk,bkhd->bqhd", of_scores, keys),
        jnp.einsum("bhqk,bqhd->bkhd", of_scores, queries),
        jnp.einsum("bhqk,bqhd->bkhd", _to(bits, shares), gradient),
        None if bias is None else of_bias,
    )


attention.defvjp(_attention, _attention_gradients)


def attention_shares(queries: Any, keys: Any, *, causal: bool, bias: Any = None) -> Any:
    """The softmax (batch, heads, length of queries, length of keys) of attention."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", queries, keys) / np.sqrt(queries.shape[-1])
    scores = scores if bias is None else scores + bias
    if causal:
        scores = jnp.where(np.tri(queries.shape[1], dtype=bool), scores, -jnp.inf)
    return jax.nn.softmax(scores)


def with_rounded_products(
    trial: Trial, params: dict[str, Any], *, prefix: str = ""
) -> dict[str, Any]:
    """The parameters, by layer or by canonical name; those of layers with products rounded.

    `prefix` is before the names of layers in `params`.
    """
    kinds = {prefix + layer["name"]: layer["kind"] for layer in trial.leaves()}
    of_trial = partial(rounded, trial.simulated_bits)
    return {
        name: part if kinds[name.partition(".")[0]] in UNROUNDED else jax.tree.map(of_trial, part)
        for name, part in params.items()
    }
