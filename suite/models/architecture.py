"""An architecture: an ordered list of layers, and what can be computed from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suite.models.layers import Layer, Parameter, Shape


@dataclass(frozen=True, kw_only=True)
class Architecture:
    name: str
    input_shape: Shape
    classes: int
    layers: tuple[Layer, ...]

    def shapes(self) -> tuple[Shape, ...]:
        """The input's shape, then the shape after each layer; ValueError where two do not fit."""
        shapes = [self.input_shape]
        for layer in self.layers:
            shapes.append(layer.output_shape(shapes[-1]))
        if shapes[-1] != (self.classes,):
            raise ValueError(f"{self.name} ends in shape {shapes[-1]}, not ({self.classes},)")
        return tuple(shapes)

    def parameters(self) -> tuple[Parameter, ...]:
        return tuple(parameter for layer in self.layers for parameter in layer.parameters())

    @property
    def parameter_count(self) -> int:
        return sum(parameter.size for parameter in self.parameters())

    def flops_per_sample(self, mode: str) -> int:
        """Floating-point operations of the convolutions and dense layers, two for each
        multiply-accumulate. Training adds the gradients of weights and of inputs, as many again
        each, save the gradient of the first such layer's input, which nobody needs.
        """
        macs = [layer.macs(shape) for layer, shape in zip(self.layers, self.shapes(), strict=False)]
        forward = 2 * sum(macs)
        if mode == "infer":
            return forward
        first = next(each for each in macs if each)
        return 3 * forward - 2 * first

    def initial_weights(self, seed: int) -> NDArray[np.float32]:
        """One flat vector: weights normal with variance 2 / fan-in (He et al. 2015), biases 0."""
        generator = np.random.default_rng(seed)
        parts = []
        for parameter in self.parameters():
            std = math.sqrt(2 / parameter.fan_in) if parameter.fan_in else 0.0
            parts.append(std * generator.standard_normal(parameter.size))
        return np.concatenate(parts).astype(np.float32)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "input_shape": self.input_shape,
            "classes": self.classes,
            "layers": [layer.to_json() for layer in self.layers],
        }
