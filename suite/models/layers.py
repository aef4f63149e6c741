"""Layers as data: each has an output shape, parameters and a number of multiply-accumulates.

Shapes omit the batch: images are (channels, height, width), sequences (length, features), all
others (features,). The docstrings and docs/protocol.md define what each layer computes.
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

    Its initial values are normally distributed, with `mean` and the standard deviation `std`.
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
    """A layer, by default one without parameters that keeps its input's shape."""

    kind: ClassVar[str]
    name: str

    def output_shape(self, shape: Shape) -> Shape:
        """The shape after this layer; ValueError where it cannot take `shape`."""
        return shape

    def parameters(self) -> tuple[Parameter, ...]:
        """The tensors that gradients change."""
        return ()

    def statistics(self) -> tuple[Parameter, ...]:
        """The tensors that training changes without gradients."""
        return ()

    def macs(self, shape: Shape) -> int:
        """The multiply-accumulates of one sample's forward pass, for an input of `shape`."""
        return 0

    def input_gradient_macs(self, shape: Shape) -> int:
        """The part of as many multiply-accumulates that the gradient of the layer's input takes."""
        return self.macs(shape)

    def values(self, shape: Shape) -> int:
        """The fewest values that one sample's forward pass reads and writes, without weights.

        They are the input and output of a layer that multiplies. All other layers can be fused with
        such a layer.
        """
        return math.prod(shape) + math.prod(self.output_shape(shape)) if self.macs(shape) else 0

    @property
    def needs(self) -> frozenset[str]:
        """What a framework must have for it: its kind, and `kind.field` of some fields."""
        return frozenset({self.kind})

    def leaves(self) -> Iterator[Layer]:
        """The layer itself, or the layers inside it in order."""
        yield self

    def to_json(self, shape: Shape) -> dict[str, Any]:
        """The form of trial.json, for an input of `shape`."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {"kind": self.kind, **values, "input_shape": shape}


@dataclass(frozen=True, kw_only=True)
class Conv2d(Layer):
    """Cross-correlation; weight (out, in / groups, height, width), padding on both sides.

    `extra_padding` is more of it below and to the right, for a padding that is uneven. Group g of
    the outputs is computed from group g of the inputs. With a dilation d, the values of a window
    are d positions apart.
    """

    kind = "conv2d"
    in_channels: int
    out_channels: int
    kernel: Pair
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    bias: bool = True
    groups: int = 1
    dilation: Pair = (1, 1)
    extra_padding: Pair = (0, 0)

    def __post_init__(self) -> None:
        if self.in_channels % self.groups or self.out_channels % self.groups:
            raise ValueError(
                f"layer {self.name!r}: {self.groups} groups do not divide its channels"
            )

    def output_shape(self, shape: Shape) -> Shape:
        expect(self, shape, len(shape) == 3 and shape[0] == self.in_channels)
        return (self.out_channels, *_window(self, shape, self.dilation))

    def parameters(self) -> tuple[Parameter, ...]:
        weight_shape = (self.out_channels, self.in_channels // self.groups, *self.kernel)
        return _affine(self.name, weight_shape, bias=self.bias)

    def macs(self, shape: Shape) -> int:
        window = self.in_channels // self.groups * math.prod(self.kernel)
        return math.prod(self.output_shape(shape)) * window

    @property
    def needs(self) -> frozenset[str]:
        fields_used = (
            *(["conv2d.groups"] if self.groups > 1 else []),
            *(["conv2d.dilation"] if self.dilation != (1, 1) else []),
        )
        return super().needs | set(fields_used) | _uneven(self)


@dataclass(frozen=True, kw_only=True)
class MaxPool2d(Layer):
    """Maximum of each window; padding is ignored. `ceil` keeps an incomplete last window."""

    kind = "max_pool2d"
    kernel: Pair
    stride: Pair
    padding: Pair = (0, 0)
    ceil: bool = False
    extra_padding: Pair = (0, 0)  # as of a convolution

    def output_shape(self, shape: Shape) -> Shape:
        expect(self, shape, len(shape) == 3)
        return (shape[0], *_window(self, shape))

    @property
    def needs(self) -> frozenset[str]:
        return super().needs | _uneven(self)


@dataclass(frozen=True, kw_only=True)
class AvgPool2d(Layer):
    """Mean of each window. Padding counts as zeros: the divisor is always the whole window.

    Without `count_padding`, the divisor is the number of values in the window that are no padding.
    """

    kind = "avg_pool2d"
    kernel: Pair
    stride: Pair
    padding: Pair = (0, 0)
    count_padding: bool = True
    extra_padding: Pair = (0, 0)  # as of a convolution

    def output_shape(self, shape: Shape) -> Shape:
        expect(self, shape, len(shape) == 3)
        return (shape[0], *_window(self, shape))

    @property
    def needs(self) -> frozenset[str]:
        uncounted = set() if self.count_padding else {"avg_pool2d.count_padding"}
        return super().needs | uncounted | _uneven(self)


@dataclass(frozen=True, kw_only=True)
class GlobalAvgPool2d(Layer):
    """(channels, height, width) to (channels,): the mean over height and width."""

    kind = "global_avg_pool2d"

    def output_shape(self, shape: Shape) -> Shape:
        expect(self, shape, len(shape) == 3)
        return shape[:1]


@dataclass(frozen=True, kw_only=True)
class BatchNorm(Layer):
    """Normalization over batch, height and width, for each channel (Ioffe and Szegedy 2015).

    running <- (1 - momentum) running + momentum batch, with the batch's biased variance.
    Without `images` its input is a vector, each value of which is a channel.
    """

    kind = "batch_norm"
    channels: int
    epsilon: float = 1e-5
    momentum: float = 0.1
    initial_scale: float = 1.0
    images: bool = True

    def output_shape(self, shape: Shape) -> Shape:
        expect(self, shape, len(shape) == (3 if self.images else 1) and shape[0] == self.channels)
        return shape

    @property
    def needs(self) -> frozenset[str]:
        return super().needs | (set() if self.images else {"batch_norm.vectors"})

    def parameters(self) -> tuple[Parameter, ...]:
        return scale(self.name, self.channels, self.initial_scale)

    def statistics(self) -> tuple[Parameter, ...]:
        return (
            Parameter(name=f"{self.name}.mean", shape=(self.channels,)),
            Parameter(name=f"{self.name}.variance", shape=(self.channels,), mean=1.0),
        )


@dataclass(frozen=True, kw_only=True)
class LayerNorm(Layer):
    """Normalization over the last axis, with the biased variance (Ba et al. 2016).

    Of images, it is over the channels at each position.
    """

    kind = "layer_norm"
    features: int
    epsilon: float = 1e-6
    images: bool = False

    def output_shape(self, shape: Shape) -> Shape:
        fits = (len(shape) == 3) == self.images
        expect(self, shape, fits and shape[0 if self.images else -1] == self.features)
        return shape

    def parameters(self) -> tuple[Parameter, ...]:
        return scale(self.name, self.features)

    @property
    def needs(self) -> frozenset[str]:
        return super().needs | ({"layer_norm.images"} if self.images else set())


@dataclass(frozen=True, kw_only=True)
class Scale(Layer):
    """A learned factor for each channel of an image (Touvron et al. 2021, layer scale)."""

    kind = "scale"
    channels: int
    initial_scale: float = 1.0

    def output_shape(self, shape: Shape) -> Shape:
        expect(self, shape, len(shape) == 3 and shape[0] == self.channels)
        return shape

    def parameters(self) -> tuple[Parameter, ...]:
        return scale(self.name, self.channels, self.initial_scale)[:1]


@dataclass(frozen=True, kw_only=True)
class ChannelSlice(Layer):
    """The channels of an image from `start` up to `stop`, which is not included."""

    kind = "channel_slice"
    start: int
    stop: int

    def output_shape(self, shape: Shape) -> Shape:
        expect(self, shape, len(shape) == 3 and 0 <= self.start < self.stop <= shape[0])
        return (self.stop - self.start, *shape[1:])


@dataclass(frozen=True, kw_only=True)
class ChannelShuffle(Layer):
    """The channels of an image in another order (Zhang et al. 2018).

    Channel i of group g, of n channels, becomes channel i groups + g.
    """

    kind = "channel_shuffle"
    groups: int

    def output_shape(self, shape: Shape) -> Shape:
        expect(self, shape, len(shape) == 3 and shape[0] % self.groups == 0)
        return shape


@dataclass(frozen=True, kw_only=True)
class Sides(Layer):
    """A layer that changes the four sides of an image by so many pixels."""

    top: int = 0
    bottom: int = 0
    left: int = 0
    right: int = 0
    sign: ClassVar[int]

    def __post_init__(self) -> None:
        if min(self.top, self.bottom, self.left, self.right) < 0:
            raise ValueError(f"layer {self.name!r}: a side is negative")

    def output_shape(self, shape: Shape) -> Shape:
        sides = (self.top + self.bottom, self.left + self.right)
        fits = len(shape) == 3 and all(
            size + self.sign * change > 0 for size, change in zip(shape[1:], sides, strict=True)
        )
        expect(self, shape, fits)
        height, width = (
            size + self.sign * change for size, change in zip(shape[1:], sides, strict=True)
        )
        return (shape[0], height, width)


@dataclass(frozen=True, kw_only=True)
class ZeroPadding2d(Sides):
    """Zeros at the four sides of an image.

    Before a convolution, and before an average in which padding counts, `padding` does the same.
    """

    kind = "zero_padding2d"
    sign = 1


@dataclass(frozen=True, kw_only=True)
class Cropping2d(Sides):
    """An image without so many pixels at its four sides."""

    kind = "cropping2d"
    sign = -1


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
    """relu6(x + 3) / 6 (Howard et al. 2019)"""

    kind = "hard_sigmoid"


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


@dataclass(frozen=True, kw_only=True)
class Flatten(Layer):
    """(channels, height, width) to (features,), in that order."""

    kind = "flatten"

    def output_shape(self, shape: Shape) -> Shape:
        expect(self, shape, len(shape) == 3)
        return (math.prod(shape),)


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
        return _affine(self.name, (self.out_features, self.in_features), bias=self.bias)

    def macs(self, shape: Shape) -> int:
        return math.prod(shape) * self.out_features


def conv_norm(
    name: str,
    inputs: int,
    outputs: int,
    *,
    kernel: int = 1,
    stride: int = 1,
    epsilon: float = 1e-5,
    initial_scale: float = 1.0,
) -> tuple[Layer, ...]:
    """A square convolution without bias, padded by half its kernel, and its batch norm."""
    convolution = Conv2d(
        name=name,
        in_channels=inputs,
        out_channels=outputs,
        kernel=(kernel, kernel),
        stride=(stride, stride),
        padding=(kernel // 2, kernel // 2),
        bias=False,
    )
    norm = BatchNorm(
        name=f"{name}_norm", channels=outputs, epsilon=epsilon, initial_scale=initial_scale
    )
    return (convolution, norm)


def _affine(name: str, shape: Shape, *, bias: bool) -> tuple[Parameter, ...]:
    """A weight of variance 2 / fan-in (He et al. 2015), and a bias that starts at zero."""
    std = math.sqrt(2 / math.prod(shape[1:]))
    weight = Parameter(name=f"{name}.weight", shape=shape, std=std)
    if not bias:
        return (weight,)
    return (weight, Parameter(name=f"{name}.bias", shape=shape[:1]))


def scale(name: str, size: int, initial: float = 1.0) -> tuple[Parameter, ...]:
    """The scale of a normalization, which starts at `initial`, and its bias, which starts at 0."""
    weight = Parameter(name=f"{name}.weight", shape=(size,), mean=initial)
    return (weight, Parameter(name=f"{name}.bias", shape=(size,)))


def _window(layer: Conv2d | MaxPool2d | AvgPool2d, shape: Shape, dilation: Pair = (1, 1)) -> Shape:
    """Height and width after sliding a window; a pool with `ceil` keeps an incomplete last one."""
    rounded = math.ceil if isinstance(layer, MaxPool2d) and layer.ceil else math.floor
    found = []
    for axis, size in enumerate(shape[1:]):
        extent = dilation[axis] * (layer.kernel[axis] - 1) + 1
        padded = size + 2 * layer.padding[axis] + layer.extra_padding[axis]
        found.append(rounded((padded - extent) / layer.stride[axis]) + 1)
    return tuple(found)


def _uneven(layer: Conv2d | MaxPool2d | AvgPool2d) -> set[str]:
    """What a framework must have for the layer's padding."""
    return {f"{layer.kind}.extra_padding"} if any(layer.extra_padding) else set()


def expect(layer: Layer, shape: Shape, fits: bool) -> None:
    """Raise ValueError where the layer cannot take an input of `shape`."""
    if not fits:
        raise ValueError(f"layer {layer.name!r} cannot take an input of shape {shape}: {layer}")
