"""A layer as data: it has an output shape, parameters and a number of multiply-accumulates.

Shapes omit the batch: images are (channels, height, width), sequences (length, features), all
others (features,). The docstrings and docs/reference/protocol.md define what each layer computes.
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
    """One tensor that training changes, in the canonical layout (docs/reference/protocol.md).

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


def affine(name: str, shape: Shape, *, bias: bool) -> tuple[Parameter, ...]:
    """A weight of variance 2 / fan-in (He et al. 2015), and a bias that starts at zero."""
    std = math.sqrt(2 / math.prod(shape[1:]))
    weight = Parameter(name=f"{name}.weight", shape=shape, std=std)
    if not bias:
        return (weight,)
    return (weight, Parameter(name=f"{name}.bias", shape=shape[:1]))


def expect(layer: Layer, shape: Shape, fits: bool) -> None:
    """Raise ValueError where the layer cannot take an input of `shape`."""
    if not fits:
        raise ValueError(f"layer {layer.name!r} cannot take an input of shape {shape}: {layer}")
