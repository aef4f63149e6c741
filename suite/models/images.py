"""Layers of images: windows, pools, sides and channels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from suite.models.layer import Layer, Pair, Parameter, Shape, affine, expect
from suite.models.norms import BatchNorm


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
        return affine(self.name, weight_shape, bias=self.bias)

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
class TransposedConv2d(Layer):
    """The gradient of a convolution's input, as a layer (Dumoulin and Visin 2016).

    Weight (in, out, height, width). Each value of the input adds its product with the weight to
    a window of the output; windows are `stride` apart. `padding` is cut off on both sides, and
    `extra` rows and columns are added below and to the right, where windows may reach.
    """

    kind = "conv2d_transposed"
    in_channels: int
    out_channels: int
    kernel: Pair
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    extra: Pair = (0, 0)
    bias: bool = True

    def __post_init__(self) -> None:
        if any(extra >= stride for extra, stride in zip(self.extra, self.stride, strict=True)):
            raise ValueError(f"layer {self.name!r}: `extra` is not less than the stride")

    def output_shape(self, shape: Shape) -> Shape:
        expect(self, shape, len(shape) == 3 and shape[0] == self.in_channels)
        parts = (shape[1:], self.stride, self.kernel, self.padding, self.extra)
        sizes = tuple(
            (size - 1) * stride + kernel - 2 * padding + extra
            for size, stride, kernel, padding, extra in zip(*parts, strict=True)
        )
        expect(self, shape, min(sizes) > 0)
        return (self.out_channels, *sizes)

    def parameters(self) -> tuple[Parameter, ...]:
        shape = (self.in_channels, self.out_channels, *self.kernel)
        fan_in = self.in_channels * math.prod(self.kernel) / math.prod(self.stride)
        weight = Parameter(name=f"{self.name}.weight", shape=shape, std=math.sqrt(2 / fan_in))
        bias = Parameter(name=f"{self.name}.bias", shape=(self.out_channels,))
        return (weight, bias) if self.bias else (weight,)

    def macs(self, shape: Shape) -> int:
        return math.prod(shape) * self.out_channels * math.prod(self.kernel)


@dataclass(frozen=True, kw_only=True)
class Upsample(Layer):
    """An image with `factor` times the rows and columns.

    `nearest` repeats each value. `bilinear` interpolates between the centers of pixels, and beyond
    the outermost centers the values are theirs: PyTorch's `align_corners=False`.
    """

    kind = "upsample"
    factor: Pair
    mode: Literal["nearest", "bilinear"] = "nearest"

    def output_shape(self, shape: Shape) -> Shape:
        expect(self, shape, len(shape) == 3)
        height, width = self.factor
        return (shape[0], height * shape[1], width * shape[2])

    @property
    def needs(self) -> frozenset[str]:
        return super().needs | {f"upsample.{self.mode}"}


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
class Flatten(Layer):
    """(channels, height, width) to (features,), in that order."""

    kind = "flatten"

    def output_shape(self, shape: Shape) -> Shape:
        expect(self, shape, len(shape) == 3)
        return (math.prod(shape),)


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
        expect(self, shape, len(shape) == 3)
        channels, height, width = shape
        height += self.sign * (self.top + self.bottom)
        width += self.sign * (self.left + self.right)
        expect(self, shape, min(height, width) > 0)
        return (channels, height, width)


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
