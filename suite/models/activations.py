"""Activations: functions of each value alone."""

from __future__ import annotations

from dataclasses import dataclass

from suite.models.layer import Layer


@dataclass(frozen=True, kw_only=True)
class Relu(Layer):
    """max(x, 0)"""

    kind = "relu"


@dataclass(frozen=True, kw_only=True)
class Tanh(Layer):
    """tanh(x)"""

    kind = "tanh"


@dataclass(frozen=True, kw_only=True)
class Relu6(Layer):
    """min(max(x, 0), 6) (Howard et al. 2017)"""

    kind = "relu6"


@dataclass(frozen=True, kw_only=True)
class LeakyRelu(Layer):
    """x where it is positive, else slope x (Maas et al. 2013)"""

    kind = "leaky_relu"
    slope: float = 0.01


@dataclass(frozen=True, kw_only=True)
class Sigmoid(Layer):
    """1 / (1 + exp(-x))"""

    kind = "sigmoid"


@dataclass(frozen=True, kw_only=True)
class Silu(Layer):
    """x / (1 + exp(-x)) (Elfwing et al. 2018)"""

    kind = "silu"


@dataclass(frozen=True, kw_only=True)
class HardSigmoid(Layer):
    """min(max(slope x + 1/2, 0), 1); with the slope 1/6, relu6(x + 3) / 6 (Howard et al. 2019)"""

    kind = "hard_sigmoid"
    slope: float = 1 / 6


@dataclass(frozen=True, kw_only=True)
class HardSwish(Layer):
    """x relu6(x + 3) / 6 (Howard et al. 2019)"""

    kind = "hard_swish"


@dataclass(frozen=True, kw_only=True)
class Gelu(Layer):
    """x times the standard normal distribution function at x (Hendrycks and Gimpel 2016).

    With `approximate`: x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.
    """

    kind = "gelu"
    approximate: bool = False

    @property
    def needs(self) -> frozenset[str]:
        return super().needs | ({"gelu.approximate"} if self.approximate else set())
