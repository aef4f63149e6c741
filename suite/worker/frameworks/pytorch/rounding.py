"""The rounding of bfloat16 or TF32, simulated in float64 for the tolerances of proofs.

Rounded: the input, the result of each layer, and the parameters of layers with products; in the
backward pass, the gradients of all these. An LSTM or a GRU is rounded only outside: its cell
computes in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ...attention import EXCLUDED
from .attention import SelfAttention, WindowAttention
from .layers import ClassToken, PositionEmbedding, Scale

FLOAT64_BITS = 53


def rounded(values: torch.Tensor, bits: int) -> torch.Tensor:
    """Float64 values rounded to the nearest number of so many bits (Veltkamp's splitting)."""
    large = values * (2.0 ** (FLOAT64_BITS - bits) + 1)
    return large - (large - values)


class Round(torch.autograd.Function):
    """Rounds a tensor and its gradient."""

    @staticmethod
    def forward(context: Any, values: torch.Tensor, bits: int) -> torch.Tensor:
        context.bits = bits
        return rounded(values, bits)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return rounded(gradient, context.bits), None


class Tanh(torch.autograd.Function):
    """A tanh whose gradient is computed from the rounded result, as by all frameworks."""

    @staticmethod
    def forward(context: Any, values: torch.Tensor, bits: int) -> torch.Tensor:
        result = rounded(values.tanh(), bits)
        context.save_for_backward(result)
        return result

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        (result,) = context.saved_tensors
        return gradient * (1 - result * result), None


class Attention(torch.autograd.Function):
    """Attention as by fused kernels (FlashAttention, Dao et al. 2022), with rounded operands.

    The gradient of the softmax is computed from the rounded result, not from the sum over keys.
    """

    @staticmethod
    def forward(
        context: Any,
        queries: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        bias: torch.Tensor | None,
        causal: bool,
        bits: int,
    ) -> torch.Tensor:
        """All (batch, heads, length, features of a head); `bias` has the shape of the scores."""
        scores = queries @ keys.transpose(-1, -2) / math.sqrt(queries.shape[-1])
        if bias is not None:
            scores = scores + bias
        if causal:
            later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(later, -math.inf)
        shares = scores.softmax(-1)
        mixed = rounded(rounded(shares, bits) @ values, bits)
        context.save_for_backward(queries, keys, values, shares, mixed)
        context.bits, context.biased = bits, bias is not None
        return mixed

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        queries, keys, values, shares, mixed = context.saved_tensors
        gradient = rounded(gradient, context.bits)
        of_shares = gradient @ values.transpose(-1, -2)
        mean = (gradient * mixed).sum(-1, keepdim=True)
        of_bias = rounded(shares * (of_shares - mean), context.bits)
        of_scores = of_bias / math.sqrt(queries.shape[-1])
        of_values = rounded(shares, context.bits).transpose(-1, -2) @ gradient
        of_keys = of_scores.transpose(-1, -2) @ queries
        return of_scores @ keys, of_keys, of_values, of_bias if context.biased else None, None, None


def attention(bits: int, *, causal: bool) -> Callable[..., torch.Tensor]:
    """`Attention` as a function of queries, keys, values and what is added to the scores.

    In place of the latter, it takes a mask of the keys that are not excluded.
    """

    def attend(
        queries: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        bias: torch.Tensor | None = None,
    ) -> torch.Tensor:
        if bias is not None and bias.dtype == torch.bool:
            bias = torch.where(bias, 0.0, EXCLUDED)
        if bias is not None:
            bias = bias.expand(len(queries), -1, -1, -1)
        result: torch.Tensor = Attention.apply(queries, keys, values, bias, causal, bits)
        return result

    return attend


def simulated(
    model: nn.Module, modules: dict[str, nn.Module], bits: int
) -> Callable[[torch.Tensor], torch.Tensor]:
    """The model as a function that rounds to `bits`; `modules` are its layers by name."""
    norms = (nn.BatchNorm2d, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)
    unrounded = (*norms, Scale, ClassToken, PositionEmbedding)
    with_products = [module for module in modules.values() if not isinstance(module, unrounded)]
    parameters = {id(each) for module in with_products for each in module.parameters()}
    names = {name for name, each in model.named_parameters() if id(each) in parameters}

    def rounding(values: Any) -> Any:
        """The rounded tensor, or tuple of tensors, that a module returned."""
        if isinstance(values, tuple):
            return tuple(map(rounding, values))
        return Round.apply(values, bits)

    for module in model.modules():
        if isinstance(module, nn.Tanh):
            module.forward = lambda values: Tanh.apply(values, bits)
        if isinstance(module, (SelfAttention, WindowAttention)):
            module.attend = attention(bits, causal=module.causal)  # type: ignore[method-assign]
        if module is not model and not isinstance(module, nn.ModuleList):
            module.register_forward_hook(lambda _, inputs, result: rounding(result))

    def run(values: torch.Tensor) -> torch.Tensor:
        given = {n: rounding(p) if n in names else p for n, p in model.named_parameters()}
        inputs = rounding(values) if values.is_floating_point() else values  # tokens stay exact
        result: torch.Tensor = torch.func.functional_call(model, given, inputs)
        return result

    return run
