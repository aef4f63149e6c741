"""LAMB of MXNet's own kernels, with exact norms."""

from __future__ import annotations

from typing import Any

import mxnet as mx

MANY = 1_000_000  # values of which a dot product on a CPU has an error of about 2e-5


class Lamb(mx.optimizer.Optimizer):
    """The formulas of docs/reference/optimizers.md; exempt parameters take the step of Adam.

    mx.optimizer.LAMB adds the squares of a norm one by one in float32.
    """

    def __init__(
        self, *, beta1: float, beta2: float, epsilon: float, weight_decay: float, **numbers: Any
    ) -> None:
        super().__init__(wd=weight_decay, **numbers)
        self._constants = {"beta1": beta1, "beta2": beta2, "epsilon": epsilon}

    def create_state(self, index: int, weight: Any) -> Any:
        return tuple(mx.nd.zeros(weight.shape, weight.context, weight.dtype) for _ in range(2))

    def update(self, index: int, weight: Any, grad: Any, state: Any) -> None:
        self._update_count(index)
        rate, count = self._get_lr(index), self._index_update_count[index]
        numbers = {"t": count, "wd": self._get_wd(index), "rescale_grad": self.rescale_grad}
        step = mx.nd.lamb_update_phase1(weight, grad, *state, **self._constants, **numbers)
        if self.param_dict[index].wd_mult == 0:
            mx.nd.sgd_update(weight, step, lr=rate, wd=0.0, out=weight)
        else:
            norms = _norm(weight), _norm(step)
            mx.nd.lamb_update_phase2(weight, step, *norms, lr=rate, out=weight)


def _norm(values: Any) -> Any:
    """The norm (1,) of all values, by a dot product, of many values by one for each row.

    For forty million values MXNet's own norm has an error of 5e-2, and one dot product of 8e-4.
    """
    if values.ndim == 1 or values.size <= MANY:
        flat = values.reshape(-1)
        return mx.nd.sqrt(mx.nd.dot(flat, flat))
    rows = values.reshape((values.shape[0], 1, -1))
    return mx.nd.sqrt(mx.nd.sum(mx.nd.batch_dot(rows, rows, transpose_b=True)))
