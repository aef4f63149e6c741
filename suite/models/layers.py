"""Layers as data: each knows its output shape, its parameters and its floating-point operations.

Shapes leave the batch out and put channels first: (channels, height, width) or (features,).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

Shape = tuple[int, ...]
Pair = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One tensor that training changes, in the canonical layout (docs/protocol.md)."""

    name: str
    shape: Shape
    fan_in: int  # inputs of one output; 0 for a bias, which starts at zero

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A layer without parameters that keeps its input's shape; the others override what differs."""

    kind: ClassVar[str]
    name: str

    def output_shape(self, shape: Shape) -> Shape:
        """The shape after this layer; ValueError where it cannot take `shape`."""
        return shape

    def parameters(self) -> tuple[Parameter, ...]:
        return ()

    def macs(self, shape: Shape) -> int:
        """Multiply-accumulates of one sample's forward pass, for an input of `shape`."""
        return 0

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, **asdict(self)}


@dataclass(frozen=True, kw_only=True)
class Conv2d(Layer):
    """Cross-correlation; weight (out, in, height, width), padding (height, width) on both sides."""

    kind = "conv2d"
    in_channels: int
    out_channels: int
    kernel: Pair
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    bias: bool = True

    def output_shape(self, shape: Shape) -> Shape:
        _expect(self.name, shape[0] == self.in_channels and len(shape) == 3, shape)
        return (self.out_channels, *_window(shape, self.kernel, self.stride, self.padding))

    def parameters(self) -> tuple[Parameter, ...]:
        fan_in = self.in_channels * math.prod(self.kernel)
        weight_shape = (self.out_channels, self.in_channels, *self.kernel)
        return _affine(self.name, weight_shape, fan_in, bias=self.bias)

    def macs(self, shape: Shape) -> int:
        return math.prod(self.output_shape(shape)) * self.in_channels * math.prod(self.kernel)


@dataclass(frozen=True, kw_only=True)
class MaxPool2d(Layer):
    kind = "max_pool2d"
    kernel: Pair
    stride: Pair
    padding: Pair = (0, 0)

    def output_shape(self, shape: Shape) -> Shape:
        _expect(self.name, len(shape) == 3, shape)
        return (shape[0], *_window(shape, self.kernel, self.stride, self.padding))


@dataclass(frozen=True, kw_only=True)
class Flatten(Layer):
    """(channels, height, width) to features, in that order."""

    kind = "flatten"
    input_shape: Shape
    output_features: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "output_features", math.prod(self.input_shape))

    def output_shape(self, shape: Shape) -> Shape:
        _expect(self.name, shape == self.input_shape, shape)
        return (self.output_features,)


@dataclass(frozen=True, kw_only=True)
class Dense(Layer):
    """Weight (out, in)."""

    kind = "dense"
    in_features: int
    out_features: int
    bias: bool = True

    def output_shape(self, shape: Shape) -> Shape:
        _expect(self.name, shape == (self.in_features,), shape)
        return (self.out_features,)

    def parameters(self) -> tuple[Parameter, ...]:
        weight_shape = (self.out_features, self.in_features)
        return _affine(self.name, weight_shape, self.in_features, bias=self.bias)

    def macs(self, shape: Shape) -> int:
        return self.in_features * self.out_features


@dataclass(frozen=True, kw_only=True)
class Relu(Layer):
    kind = "relu"


def _affine(name: str, shape: Shape, fan_in: int, *, bias: bool) -> tuple[Parameter, ...]:
    weight = Parameter(name=f"{name}.weight", shape=shape, fan_in=fan_in)
    if not bias:
        return (weight,)
    return (weight, Parameter(name=f"{name}.bias", shape=shape[:1], fan_in=0))


def _window(shape: Shape, kernel: Pair, stride: Pair, padding: Pair) -> Shape:
    """Height and width after sliding a window, the incomplete last one dropped."""
    sizes = zip(shape[1:], kernel, stride, padding, strict=True)
    return tuple((size + 2 * pad - k) // step + 1 for size, k, step, pad in sizes)


def _expect(name: str, fits: bool, shape: Shape) -> None:
    if not fits:
        raise ValueError(f"layer {name!r} cannot take an input of shape {shape}")
