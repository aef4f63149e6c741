"""LAMB, which PyTorch does not have, by the fused kernel of its Adam."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.optim.adam import adam


class Lamb(torch.optim.Optimizer):
    """The formulas of docs/reference/optimizers.md; `exempt` parameters take the step of Adam."""

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        exempt: Sequence[nn.Parameter],
        *,
        lr: float,
        weight_decay: float,
        betas: tuple[float, float],
        eps: float,
    ) -> None:
        groups = [{"params": parameters, "adapts": True}, {"params": exempt, "adapts": False}]
        self._weight_decay, self._betas, self._epsilon = weight_decay, betas, eps
        super().__init__([group for group in groups if group["params"]], {"lr": lr})
        for parameter in (*parameters, *exempt):
            self.state[parameter] = {
                "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(self) -> None:
        for group in self.param_groups:
            parameters, rate = group["params"], group["lr"]
            if not group["adapts"]:
                self._adam(parameters, parameters, rate)
                continue
            # Adam subtracts its step: these become the negative of the paper's r + lambda w.
            updates = torch._foreach_mul(parameters, -self._weight_decay)
            self._adam(updates, parameters, 1.0)
            ratios = _trust_ratios(parameters, updates)
            torch._foreach_addcmul_(parameters, updates, ratios, value=rate)

    def _adam(self, values: Any, parameters: list[nn.Parameter], rate: float) -> None:
        """Do one step of Adam with the parameters' gradients and slots, on other values."""
        states = [self.state[each] for each in parameters]
        adam(
            values,
            [each.grad for each in parameters if each.grad is not None],
            *([each[slot] for each in states] for slot in ("exp_avg", "exp_avg_sq")),
            [],
            [each["step"] for each in states],
            fused=True,
            amsgrad=False,
            beta1=self._betas[0],
            beta2=self._betas[1],
            lr=rate,
            weight_decay=0.0,
            eps=self._epsilon,
            maximize=False,
        )


def _trust_ratios(weights: Any, updates: Any) -> Any:
    """The norm of each tensor of weights over that of its update; 1 where one of them is 0."""
    of_weights, of_updates = (torch.stack(_norms(tensors)) for tensors in (weights, updates))
    is_zero = (of_weights == 0) | (of_updates == 0)
    return torch.where(is_zero, 1.0, of_weights / of_updates).unbind()


def _norms(tensors: Any) -> Any:
    """The norm of each tensor.

    On a CPU, PyTorch's norm of forty million values has an error of 2e-3; that of rows, and of
    their norms, is exact.
    """
    if tensors[0].is_cuda:
        return torch._foreach_norm(tensors)
    rows = [
        torch.linalg.vector_norm(each, dim=tuple(range(1, each.ndim))) if each.ndim > 1 else each
        for each in tensors
    ]
    return torch._foreach_norm(rows)
