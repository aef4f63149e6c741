"""An architecture: an ordered list of layers, and what can be computed from it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suite.models.branches import series_macs, series_shapes, series_to_json, series_values
from suite.models.layers import Layer, Parameter, Shape


@dataclass(frozen=True, kw_only=True)
class Architecture:
    name: str
    input_shape: Shape
    classes: int
    layers: tuple[Layer, ...]

    def leaves(self) -> Iterator[Layer]:
        """All layers in order, those inside of branches too."""
        for layer in self.layers:
            yield from layer.leaves()

    def shapes(self) -> list[Shape]:
        """The input's shape, then the shape after each layer; ValueError where two do not fit."""
        shapes = series_shapes(self.layers, self.input_shape)
        if shapes[-1] != (self.classes,):
            raise ValueError(f"{self.name} ends in shape {shapes[-1]}, not ({self.classes},)")
        return shapes

    def parameters(self) -> tuple[Parameter, ...]:
        return tuple(each for layer in self.layers for each in layer.parameters())

    def statistics(self) -> tuple[Parameter, ...]:
        """The running means and variances of the batch norms."""
        return tuple(each for layer in self.layers for each in layer.statistics())

    @property
    def parameter_count(self) -> int:
        return sum(parameter.size for parameter in self.parameters())

    @property
    def batch_norm_positions(self) -> int:
        """Over how many values of a sample a batch norm's mean is taken, at most; 0 without one."""
        if not self.statistics():
            return 0
        return max(math.prod(shape[1:]) for shape in self.shapes()[1:] if len(shape) == 3)

    def flops_per_sample(self, mode: str) -> int:
        """Floating-point operations of convolutions, dense, attention and LSTM layers, two for each
        multiply-accumulate. Training adds the gradients of weights and of inputs, as many again
        each, save the gradient of the first such layer's input, which nobody needs.
        """
        forward = 2 * series_macs(self.layers, self.input_shape)
        if mode == "infer":
            return forward
        each = zip(self.layers, self.shapes(), strict=False)
        first = next(macs for layer, shape in each if (macs := layer.macs(shape)))
        return 3 * forward - 2 * first

    def bytes_per_sample(self, mode: str, batch_size: int) -> float:
        """What must go to and from memory at least, in float32, were every operation joined to the
        convolution or matrix product beside it and nothing kept in a cache.

        Training reads and writes as much again for the gradients of inputs and of weights; it
        reads the weights three times a batch, writes and reads their gradients and writes them.
        """
        values = series_values(self.layers, self.input_shape)
        times, weights = (1, 1) if mode == "infer" else (3, 6)
        return 4 * (times * values + weights * self.parameter_count / batch_size)

    def initial_weights(self, seed: int) -> NDArray[np.float32]:
        """One flat vector, in the order of `parameters`."""
        generator = np.random.default_rng(seed)
        parts = [
            (each.mean + each.std * generator.standard_normal(each.size)).astype(np.float32)
            for each in self.parameters()
        ]
        return np.concatenate(parts)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "input_shape": self.input_shape,
            "classes": self.classes,
            "layers": series_to_json(self.layers, self.input_shape),
        }
