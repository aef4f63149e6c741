"""Series of layers, and layers that hold several parallel series."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from suite.models.layer import Layer, Parameter, Shape, expect


@dataclass(frozen=True, kw_only=True)
class Branches(Layer):
    """Several series of layers on one input; an empty series returns the input unchanged.

    There must be at least two, else ValueError: the result of a single empty branch would be the
    input itself, and a later layer that computes in place would change it for other layers too.
    """

    branches: tuple[tuple[Layer, ...], ...] = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.branches) < 2:
            raise ValueError(f"layer {self.name!r} needs two branches or more")

    def parameters(self) -> tuple[Parameter, ...]:
        return tuple(each for leaf in self.leaves() for each in leaf.parameters())

    def statistics(self) -> tuple[Parameter, ...]:
        return tuple(each for leaf in self.leaves() for each in leaf.statistics())

    def macs(self, shape: Shape) -> int:
        return sum(series_macs(branch, shape) for branch in self.branches)

    def input_gradient_macs(self, shape: Shape) -> int:
        return sum(first_input_gradient_macs(branch, shape) for branch in self.branches)

    def values(self, shape: Shape) -> int:
        return sum(series_values(branch, shape) for branch in self.branches)

    @property
    def needs(self) -> frozenset[str]:
        inner = (each.needs for branch in self.branches for each in branch)
        return super().needs.union(*inner)

    def leaves(self) -> Iterator[Layer]:
        for branch in self.branches:
            for layer in branch:
                yield from layer.leaves()

    def to_json(self, shape: Shape) -> dict[str, Any]:
        branches = [series_to_json(branch, shape) for branch in self.branches]
        return {"kind": self.kind, "name": self.name, "input_shape": shape, "branches": branches}


def without(layers: tuple[Layer, ...], kind: str) -> tuple[Layer, ...]:
    """A series without the layers of a kind, also in its branches."""
    return tuple(
        replace(layer, branches=tuple(without(each, kind) for each in layer.branches))
        if isinstance(layer, Branches)
        else layer
        for layer in layers
        if layer.kind != kind
    )


@dataclass(frozen=True, kw_only=True)
class Add(Branches):
    """The sum of its branches."""

    kind = "add"

    def output_shape(self, shape: Shape) -> Shape:
        ends = [series_shapes(branch, shape)[-1] for branch in self.branches]
        expect(self, shape, len(set(ends)) == 1)
        return ends[0]


@dataclass(frozen=True, kw_only=True)
class Multiply(Branches):
    """The product of its branches; an axis of size 1 is repeated, as in squeeze-and-excitation."""

    kind = "multiply"

    def output_shape(self, shape: Shape) -> Shape:
        ends = [series_shapes(branch, shape)[-1] for branch in self.branches]
        expect(self, shape, len({len(end) for end in ends}) == 1)
        found = tuple(max(sizes) for sizes in zip(*ends, strict=True))
        fits = all(
            size in (1, whole) for end in ends for size, whole in zip(end, found, strict=True)
        )
        expect(self, shape, fits)
        return found


@dataclass(frozen=True, kw_only=True)
class Concat(Branches):
    """The concatenation of its branches along the channels, or the features of sequences."""

    kind = "concat"
    sequence: bool = False  # whether its branches end in sequences

    def output_shape(self, shape: Shape) -> Shape:
        ends = [series_shapes(branch, shape)[-1] for branch in self.branches]
        expect(self, shape, all((len(end) == 2) == self.sequence for end in ends))
        if self.sequence:
            expect(self, shape, len({end[0] for end in ends}) == 1)
            return (ends[0][0], sum(end[1] for end in ends))
        expect(self, shape, len({end[1:] for end in ends}) == 1)
        return (sum(end[0] for end in ends), *ends[0][1:])

    @property
    def needs(self) -> frozenset[str]:
        return super().needs | ({"concat.sequence"} if self.sequence else set())

    def to_json(self, shape: Shape) -> dict[str, Any]:
        return {**super().to_json(shape), "sequence": self.sequence}


def series_shapes(layers: tuple[Layer, ...], shape: Shape) -> list[Shape]:
    """`shape`, then the shape after each layer; ValueError where a layer cannot take its input."""
    shapes = [shape]
    for layer in layers:
        shapes.append(layer.output_shape(shapes[-1]))
    return shapes


def _with_inputs(layers: tuple[Layer, ...], shape: Shape) -> Iterator[tuple[Layer, Shape]]:
    """Each layer with the shape of its input."""
    return zip(layers, series_shapes(layers, shape), strict=False)


def series_to_json(layers: tuple[Layer, ...], shape: Shape) -> list[dict[str, Any]]:
    """The layers in the form of trial.json, for an input of `shape`."""
    return [layer.to_json(before) for layer, before in _with_inputs(layers, shape)]


def series_macs(layers: tuple[Layer, ...], shape: Shape) -> int:
    """`Layer.macs` of all layers together."""
    return sum(layer.macs(before) for layer, before in _with_inputs(layers, shape))


def first_input_gradient_macs(layers: tuple[Layer, ...], shape: Shape) -> int:
    """`Layer.input_gradient_macs` of the first layer that multiplies; 0 where none does."""
    each = _with_inputs(layers, shape)
    found = (layer.input_gradient_macs(before) for layer, before in each if layer.macs(before))
    return next(found, 0)


def series_values(layers: tuple[Layer, ...], shape: Shape) -> int:
    """`Layer.values` of all layers together."""
    return sum(layer.values(before) for layer, before in _with_inputs(layers, shape))
