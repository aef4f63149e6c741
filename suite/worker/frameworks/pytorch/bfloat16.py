"""The rounding of `bf16_mixed`, simulated in float64 for the tolerances of its proofs.

Rounded to bfloat16, as by torch.autocast: the input, the result of each layer, and the parameters
of layers with products; in the backward pass, the gradients of all these. An LSTM is rounded only
outside: its cell computes in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from .layers import ClassToken, PositionEmbedding


class Round(torch.autograd.Function):
    """Rounds a tensor and its gradient to bfloat16, and keeps their types."""

    @staticmethod
    def forward(context: Any, values: torch.Tensor) -> torch.Tensor:
        return values.to(torch.bfloat16).to(values.dtype)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient.to(torch.bfloat16).to(gradient.dtype)


class Tanh(torch.autograd.Function):
    """A tanh whose gradient is computed from the rounded result, as by all frameworks."""

    @staticmethod
    def forward(context: Any, values: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = values.tanh().to(torch.bfloat16).to(values.dtype)
        context.save_for_backward(result)
        return result

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        (result,) = context.saved_tensors
        found: torch.Tensor = gradient * (1 - result * result)
        return found


def simulated(
    model: nn.Module, modules: dict[str, nn.Module]
) -> Callable[[torch.Tensor], torch.Tensor]:
    """The model as a function that rounds; `modules` are its layers by name."""
    unrounded = (nn.BatchNorm2d, nn.LayerNorm, ClassToken, PositionEmbedding)
    with_products = [module for module in modules.values() if not isinstance(module, unrounded)]
    rounded = {id(each) for module in with_products for each in module.parameters()}
    names = {name for name, each in model.named_parameters() if id(each) in rounded}
    for module in model.modules():
        if isinstance(module, nn.Tanh):
            module.forward = Tanh.apply
        if module is not model and not isinstance(module, nn.ModuleList):
            module.register_forward_hook(lambda _, inputs, result: _round(result))

    def run(values: torch.Tensor) -> torch.Tensor:
        given = {n: _round(p) if n in names else p for n, p in model.named_parameters()}
        inputs = _round(values) if values.is_floating_point() else values  # tokens stay exact
        result: torch.Tensor = torch.func.functional_call(model, given, inputs)
        return result

    return run


def _round(values: Any) -> Any:
    """The rounded tensor, or tuple of tensors, that a module returned."""
    if isinstance(values, tuple):
        return tuple(map(_round, values))
    return Round.apply(values)
