"""Layers that normalize, and a learned scale."""

from __future__ import annotations

from dataclasses import dataclass

from suite.models.layer import Layer, Parameter, Shape, expect


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
class GroupNorm(Layer):
    """Normalization over the height, the width and the channels of a group (Wu and He 2018).

    The variance is the biased one. With as many groups as channels, it is instance norm (Ulyanov et
    al. 2016).
    """

    kind = "group_norm"
    channels: int
    groups: int
    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        if self.channels % self.groups:
            raise ValueError(
                f"layer {self.name!r}: {self.groups} groups do not divide its channels"
            )

    def output_shape(self, shape: Shape) -> Shape:
        expect(self, shape, len(shape) == 3 and shape[0] == self.channels)
        return shape

    def parameters(self) -> tuple[Parameter, ...]:
        return scale(self.name, self.channels)


@dataclass(frozen=True, kw_only=True)
class RmsNorm(Layer):
    """x times a scale, over the root of the mean of x^2 on the last axis (Zhang and Sennrich 2019).

    `epsilon` is inside the root.
    """

    kind = "rms_norm"
    features: int
    epsilon: float = 1e-6

    def output_shape(self, shape: Shape) -> Shape:
        expect(self, shape, len(shape) == 2 and shape[1] == self.features)
        return shape

    def parameters(self) -> tuple[Parameter, ...]:
        return scale(self.name, self.features)[:1]


@dataclass(frozen=True, kw_only=True)
class LocalResponseNorm(Layer):
    """x (k + alpha / size s)^-beta, s the sum of x^2 over `size` channels around that of x.

    Channels before the first and after the last count as zeros. Krizhevsky et al. (2012) do not
    divide alpha.
    """

    kind = "local_response_norm"
    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    k: float = 1.0

    def __post_init__(self) -> None:
        if self.size < 1 or self.size % 2 == 0:
            raise ValueError(f"layer {self.name!r}: size {self.size} is not odd")

    def output_shape(self, shape: Shape) -> Shape:
        expect(self, shape, len(shape) == 3)
        return shape


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


def scale(name: str, size: int, initial: float = 1.0) -> tuple[Parameter, ...]:
    """The scale of a normalization, which starts at `initial`, and its bias, which starts at 0."""
    weight = Parameter(name=f"{name}.weight", shape=(size,), mean=initial)
    return (weight, Parameter(name=f"{name}.bias", shape=(size,)))
