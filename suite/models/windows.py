"""Layers of Swin transformers (Liu et al. 2021)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from suite.models.layer import Layer, Pair, Parameter, Shape, expect


@dataclass(frozen=True, kw_only=True)
class WindowAttention(Layer):
    """Attention among the pixels of each window of an image, whose channels are the features.

    As SelfAttention with biases; to the score of pixels i and j of a window and a head is added the
    value of `table` for their distance: row (y_i - y_j + h - 1) (2 w - 1) + x_i - x_j + w - 1, for
    windows of h x w. With a `shift`, the image is moved up and to the left by so many pixels before
    that, and back after it; what leaves it enters at the other side. Pixels that were not
    neighbours before that do not attend to each other.
    """

    kind = "window_attention"
    features: int
    heads: int
    window: Pair
    shift: Pair = (0, 0)

    def __post_init__(self) -> None:
        if self.features % self.heads:
            raise ValueError(f"layer {self.name!r}: {self.heads} heads do not divide its features")
        if any(not 0 <= move < size for move, size in zip(self.shift, self.window, strict=True)):
            raise ValueError(f"layer {self.name!r}: its shift is not less than its window")

    def output_shape(self, shape: Shape) -> Shape:
        fits = len(shape) == 3 and shape[0] == self.features
        sizes = zip(shape[1:], self.window, strict=False)
        expect(self, shape, fits and not any(size % part for size, part in sizes))
        return shape

    def parameters(self) -> tuple[Parameter, ...]:
        size, std = self.features, math.sqrt(1 / self.features)
        distances = math.prod(2 * each - 1 for each in self.window)
        return (
            Parameter(name=f"{self.name}.in_weight", shape=(3 * size, size), std=std),
            Parameter(name=f"{self.name}.in_bias", shape=(3 * size,)),
            Parameter(name=f"{self.name}.out_weight", shape=(size, size), std=std),
            Parameter(name=f"{self.name}.out_bias", shape=(size,)),
            Parameter(name=f"{self.name}.table", shape=(distances, self.heads), std=0.02),
        )

    def macs(self, shape: Shape) -> int:
        pixels = math.prod(shape[1:])
        return pixels * self.features * (4 * self.features + 2 * math.prod(self.window))


@dataclass(frozen=True, kw_only=True)
class PatchMerging(Layer):
    """(channels, height, width) to (4 channels, height / 2, width / 2).

    The pixels of a square of four are, in this order: above left, below left, above right, below
    right.
    """

    kind = "patch_merging"

    def output_shape(self, shape: Shape) -> Shape:
        expect(self, shape, len(shape) == 3 and shape[1] % 2 == 0 and shape[2] % 2 == 0)
        return (4 * shape[0], shape[1] // 2, shape[2] // 2)
