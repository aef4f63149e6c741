"""Layers of features of any shape: dense layers and dropout."""

from __future__ import annotations

import math
from dataclasses import dataclass

from suite.models.layer import Layer, Parameter, Shape, affine, expect


@dataclass(frozen=True, kw_only=True)
class Dropout(Layer):
    """In training: zero with probability `rate`, otherwise the value times 1 / (1 - rate).

    `whole` draws once for each sample: a branch is left out for it (Huang et al. 2016, stochastic
    depth).
    """

    kind = "dropout"
    rate: float
    whole: bool = False

    @property
    def needs(self) -> frozenset[str]:
        return super().needs | ({"dropout.whole"} if self.whole else set())


@dataclass(frozen=True, kw_only=True)
class Dense(Layer):
    """Matrix product on the last axis; weight (out, in)."""

    kind = "dense"
    in_features: int
    out_features: int
    bias: bool = True

    def output_shape(self, shape: Shape) -> Shape:
        expect(self, shape, len(shape) <= 2 and shape[-1] == self.in_features)
        return (*shape[:-1], self.out_features)

    def parameters(self) -> tuple[Parameter, ...]:
        return affine(self.name, (self.out_features, self.in_features), bias=self.bias)

    def macs(self, shape: Shape) -> int:
        return math.prod(shape) * self.out_features
