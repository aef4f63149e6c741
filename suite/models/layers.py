"""Layers as data: each knows its output shape, its parameters and its floating-point operations.

Shapes leave the batch out: images are (channels, height, width), sequences (length, features),
the rest (features,). What each layer computes is said here and in docs/protocol.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar

Shape = tuple[int, ...]
Pair = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One tensor that training changes, in the canonical layout (docs/protocol.md).

    Its initial values are normal with this mean and standard deviation.
    """

    name: str
    shape: Shape
    std: float = 0.0
    mean: float = 0.0

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

    def statistics(self) -> tuple[Parameter, ...]:
        """What training changes too, but not by gradients."""
        return ()

    def macs(self, shape: Shape) -> int:
        """Multiply-accumulates of one sample's forward pass, for an input of `shape`."""
        return 0

    def leaves(self) -> Iterator[Layer]:
        """Itself, or the layers inside it, in order."""
        yield self

    def to_json(self, shape: Shape) -> dict[str, Any]:
        """As trial.json holds it, for an input of `shape`."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {"kind": self.kind, **values, "input_shape": shape}


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
        _expect(self, shape, len(shape) == 3 and shape[0] == self.in_channels)
        return (self.out_channels, *_window(shape, self.kernel, self.stride, self.padding))

    def parameters(self) -> tuple[Parameter, ...]:
        weight_shape = (self.out_channels, self.in_channels, *self.kernel)
        return _affine(self.name, weight_shape, bias=self.bias)

    def macs(self, shape: Shape) -> int:
        return math.prod(self.output_shape(shape)) * self.in_channels * math.prod(self.kernel)


@dataclass(frozen=True, kw_only=True)
class MaxPool2d(Layer):
    """Padding never wins. `ceil`: an incomplete last window counts too, as in Caffe."""

    kind = "max_pool2d"
    kernel: Pair
    stride: Pair
    padding: Pair = (0, 0)
    ceil: bool = False

    def output_shape(self, shape: Shape) -> Shape:
        _expect(self, shape, len(shape) == 3)
        return (shape[0], *_window(shape, self.kernel, self.stride, self.padding, self.ceil))


@dataclass(frozen=True, kw_only=True)
class AvgPool2d(Layer):
    """Padding counts as zeros: the divisor is always the whole window."""

    kind = "avg_pool2d"
    kernel: Pair
    stride: Pair
    padding: Pair = (0, 0)

    def output_shape(self, shape: Shape) -> Shape:
        _expect(self, shape, len(shape) == 3)
        return (shape[0], *_window(shape, self.kernel, self.stride, self.padding))


@dataclass(frozen=True, kw_only=True)
class GlobalAvgPool2d(Layer):
    """(channels, height, width) to (channels,): the mean over height and width."""

    kind = "global_avg_pool2d"

    def output_shape(self, shape: Shape) -> Shape:
        _expect(self, shape, len(shape) == 3)
        return shape[:1]


@dataclass(frozen=True, kw_only=True)
class BatchNorm(Layer):
    """Over batch, height and width, for each channel (Ioffe and Szegedy 2015).

    running <- (1 - momentum) running + momentum batch, with the batch's biased variance.
    """

    kind = "batch_norm"
    channels: int
    epsilon: float = 1e-5
    momentum: float = 0.1

    def output_shape(self, shape: Shape) -> Shape:
        _expect(self, shape, len(shape) == 3 and shape[0] == self.channels)
        return shape

    def parameters(self) -> tuple[Parameter, ...]:
        return _scale(self.name, self.channels)

    def statistics(self) -> tuple[Parameter, ...]:
        return (
            Parameter(name=f"{self.name}.mean", shape=(self.channels,)),
            Parameter(name=f"{self.name}.variance", shape=(self.channels,), mean=1.0),
        )


@dataclass(frozen=True, kw_only=True)
class LayerNorm(Layer):
    """Over the last axis, with the biased variance (Ba et al. 2016)."""

    kind = "layer_norm"
    features: int
    epsilon: float = 1e-6

    def output_shape(self, shape: Shape) -> Shape:
        _expect(self, shape, shape[-1] == self.features)
        return shape

    def parameters(self) -> tuple[Parameter, ...]:
        return _scale(self.name, self.features)


@dataclass(frozen=True, kw_only=True)
class Dropout(Layer):
    """In training each value is zero with probability `rate`, the others grow by 1 / (1 - rate)."""

    kind = "dropout"
    rate: float


@dataclass(frozen=True, kw_only=True)
class Relu(Layer):
    kind = "relu"


@dataclass(frozen=True, kw_only=True)
class Tanh(Layer):
    kind = "tanh"


@dataclass(frozen=True, kw_only=True)
class Gelu(Layer):
    """x times the normal distribution's cumulative function at x: exact, no approximation by tanh
    (Hendrycks and Gimpel 2016).
    """

    kind = "gelu"


@dataclass(frozen=True, kw_only=True)
class Flatten(Layer):
    """(channels, height, width) to features, in that order."""

    kind = "flatten"

    def output_shape(self, shape: Shape) -> Shape:
        _expect(self, shape, len(shape) == 3)
        return (math.prod(shape),)


@dataclass(frozen=True, kw_only=True)
class Dense(Layer):
    """On the last axis; weight (out, in)."""

    kind = "dense"
    in_features: int
    out_features: int
    bias: bool = True

    def output_shape(self, shape: Shape) -> Shape:
        _expect(self, shape, len(shape) <= 2 and shape[-1] == self.in_features)
        return (*shape[:-1], self.out_features)

    def parameters(self) -> tuple[Parameter, ...]:
        return _affine(self.name, (self.out_features, self.in_features), bias=self.bias)

    def macs(self, shape: Shape) -> int:
        return math.prod(shape) * self.out_features


@dataclass(frozen=True, kw_only=True)
class Rows(Layer):
    """A grey image (1, height, width) to the sequence of its rows (height, width)."""

    kind = "rows"

    def output_shape(self, shape: Shape) -> Shape:
        _expect(self, shape, len(shape) == 3 and shape[0] == 1)
        return shape[1:]


@dataclass(frozen=True, kw_only=True)
class Tokens(Layer):
    """(channels, height, width) to the sequence of its pixels, row by row: (height x width,
    channels).
    """

    kind = "tokens"

    def output_shape(self, shape: Shape) -> Shape:
        _expect(self, shape, len(shape) == 3)
        return (shape[1] * shape[2], shape[0])


@dataclass(frozen=True, kw_only=True)
class ClassToken(Layer):
    """Puts one learned vector before the sequence."""

    kind = "class_token"
    features: int

    def output_shape(self, shape: Shape) -> Shape:
        _expect(self, shape, len(shape) == 2 and shape[1] == self.features)
        return (shape[0] + 1, shape[1])

    def parameters(self) -> tuple[Parameter, ...]:
        return (Parameter(name=f"{self.name}.weight", shape=(self.features,), std=0.02),)


@dataclass(frozen=True, kw_only=True)
class PositionEmbedding(Layer):
    """Adds one learned vector to each member of the sequence."""

    kind = "position_embedding"
    length: int
    features: int

    def output_shape(self, shape: Shape) -> Shape:
        _expect(self, shape, shape == (self.length, self.features))
        return shape

    def parameters(self) -> tuple[Parameter, ...]:
        shape = (self.length, self.features)
        return (Parameter(name=f"{self.name}.weight", shape=shape, std=0.02),)


@dataclass(frozen=True, kw_only=True)
class FirstToken(Layer):
    """(length, features) to (features,): the first of the sequence."""

    kind = "first_token"

    def output_shape(self, shape: Shape) -> Shape:
        _expect(self, shape, len(shape) == 2)
        return shape[1:]


@dataclass(frozen=True, kw_only=True)
class SelfAttention(Layer):
    """softmax(q k' / sqrt(features / heads)) v for each head (Vaswani et al. 2017), no mask.

    `in_weight` (3 x features, features) holds queries, keys and values one after the other.
    """

    kind = "self_attention"
    features: int
    heads: int

    def output_shape(self, shape: Shape) -> Shape:
        _expect(self, shape, len(shape) == 2 and shape[1] == self.features)
        return shape

    def parameters(self) -> tuple[Parameter, ...]:
        size, std = self.features, math.sqrt(1 / self.features)
        return (
            Parameter(name=f"{self.name}.in_weight", shape=(3 * size, size), std=std),
            Parameter(name=f"{self.name}.in_bias", shape=(3 * size,)),
            Parameter(name=f"{self.name}.out_weight", shape=(size, size), std=std),
            Parameter(name=f"{self.name}.out_bias", shape=(size,)),
        )

    def macs(self, shape: Shape) -> int:
        length, size = shape
        return 4 * length * size * size + 2 * length * length * size


@dataclass(frozen=True, kw_only=True)
class Lstm(Layer):
    """(length, in_features) to the last hidden state (hidden,), from states of zero.

    Hochreiter and Schmidhuber 1997 with forget gates (Gers et al. 2000) and one bias;
    `input_weight` (4 x hidden, in) and `hidden_weight` (4 x hidden, hidden) hold the gates in the
    order input, forget, cell, output.
    """

    kind = "lstm"
    in_features: int
    hidden: int

    def output_shape(self, shape: Shape) -> Shape:
        _expect(self, shape, len(shape) == 2 and shape[1] == self.in_features)
        return (self.hidden,)

    def parameters(self) -> tuple[Parameter, ...]:
        std = math.sqrt(1 / self.hidden)
        gates = 4 * self.hidden
        return (
            Parameter(name=f"{self.name}.input_weight", shape=(gates, self.in_features), std=std),
            Parameter(name=f"{self.name}.hidden_weight", shape=(gates, self.hidden), std=std),
            Parameter(name=f"{self.name}.bias", shape=(gates,)),
        )

    def macs(self, shape: Shape) -> int:
        return shape[0] * 4 * self.hidden * (self.in_features + self.hidden)


@dataclass(frozen=True, kw_only=True)
class Branches(Layer):
    """Several series of layers on one input; an empty one passes it on as it is."""

    branches: tuple[tuple[Layer, ...], ...]

    def parameters(self) -> tuple[Parameter, ...]:
        return tuple(each for leaf in self.leaves() for each in leaf.parameters())

    def statistics(self) -> tuple[Parameter, ...]:
        return tuple(each for leaf in self.leaves() for each in leaf.statistics())

    def macs(self, shape: Shape) -> int:
        return sum(series_macs(branch, shape) for branch in self.branches)

    def leaves(self) -> Iterator[Layer]:
        for branch in self.branches:
            for layer in branch:
                yield from layer.leaves()

    def to_json(self, shape: Shape) -> dict[str, Any]:
        branches = [series_to_json(branch, shape) for branch in self.branches]
        return {"kind": self.kind, "name": self.name, "input_shape": shape, "branches": branches}


@dataclass(frozen=True, kw_only=True)
class Add(Branches):
    """The sum of its branches."""

    kind = "add"

    def output_shape(self, shape: Shape) -> Shape:
        ends = [series_shapes(branch, shape)[-1] for branch in self.branches]
        _expect(self, shape, len(set(ends)) == 1)
        return ends[0]


@dataclass(frozen=True, kw_only=True)
class Concat(Branches):
    """Its branches' channels one after the other."""

    kind = "concat"

    def output_shape(self, shape: Shape) -> Shape:
        ends = [series_shapes(branch, shape)[-1] for branch in self.branches]
        _expect(self, shape, len({end[1:] for end in ends}) == 1)
        return (sum(end[0] for end in ends), *ends[0][1:])


def series_shapes(layers: tuple[Layer, ...], shape: Shape) -> list[Shape]:
    """`shape`, then the shape after each layer; ValueError where two do not fit."""
    shapes = [shape]
    for layer in layers:
        shapes.append(layer.output_shape(shapes[-1]))
    return shapes


def series_to_json(layers: tuple[Layer, ...], shape: Shape) -> list[dict[str, Any]]:
    shapes = series_shapes(layers, shape)
    return [layer.to_json(before) for layer, before in zip(layers, shapes, strict=False)]


def series_macs(layers: tuple[Layer, ...], shape: Shape) -> int:
    shapes = series_shapes(layers, shape)
    return sum(layer.macs(before) for layer, before in zip(layers, shapes, strict=False))


def _affine(name: str, shape: Shape, *, bias: bool) -> tuple[Parameter, ...]:
    """Weights with variance 2 / fan-in (He et al. 2015), a bias that starts at zero."""
    std = math.sqrt(2 / math.prod(shape[1:]))
    weight = Parameter(name=f"{name}.weight", shape=shape, std=std)
    if not bias:
        return (weight,)
    return (weight, Parameter(name=f"{name}.bias", shape=shape[:1]))


def _scale(name: str, size: int) -> tuple[Parameter, ...]:
    weight = Parameter(name=f"{name}.weight", shape=(size,), mean=1.0)
    return (weight, Parameter(name=f"{name}.bias", shape=(size,)))


def _window(shape: Shape, kernel: Pair, stride: Pair, padding: Pair, ceil: bool = False) -> Shape:
    """Height and width after sliding a window, the incomplete last one dropped, or kept."""
    sizes = zip(shape[1:], kernel, stride, padding, strict=True)
    rounded = math.ceil if ceil else math.floor
    return tuple(rounded((size + 2 * pad - k) / step) + 1 for size, k, step, pad in sizes)


def _expect(layer: Layer, shape: Shape, fits: bool) -> None:
    if not fits:
        raise ValueError(f"layer {layer.name!r} cannot take an input of shape {shape}")
