"""An architecture: an ordered list of layers, and the quantities computed from it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suite.models import padding
from suite.models.branches import (
    first_input_gradient_macs,
    series_macs,
    series_shapes,
    series_to_json,
    series_values,
    without,
)
from suite.models.layer import Layer, Parameter, Shape


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A model as data."""

    name: str
    input_shape: Shape
    classes: int
    layers: tuple[Layer, ...]

    def leaves(self) -> Iterator[Layer]:
        """All layers in order, including those inside branches."""
        for layer in self.layers:
            yield from layer.leaves()

    def without(self, kind: str) -> Architecture:
        """The same architecture without the layers of a kind."""
        return replace(self, layers=without(self.layers, kind))

    @property
    def takes_tokens(self) -> bool:
        """Whether its input is a sequence of tokens."""
        return self.layers[0].kind == "embedding"

    @property
    def padding_id(self) -> int | None:
        """The token that only fills the input; None where every token is one of the sample."""
        return padding.padding_of(tuple(self.leaves()))

    @property
    def positions(self) -> Shape:
        """The shape of a sample's labels: (), or (length,) where each position has a class.

        Positions are those of a text, or the pixels of an image row by row.
        """
        return series_shapes(self.layers, self.input_shape)[-1][:-1]

    def shapes(self) -> list[Shape]:
        """The input's shape, then the shape after each layer.

        Raise ValueError where a layer cannot take its input.
        """
        shapes = series_shapes(self.layers, self.input_shape)
        end, classes = shapes[-1], self.classes
        of_tokens = (*self.input_shape, classes)
        fits = end == of_tokens if self.takes_tokens else len(end) == 2 and end[1] == classes
        if end != (classes,) and not fits:
            wanted = f"{of_tokens} or {(classes,)}" if self.takes_tokens else f"{(classes,)}"
            raise ValueError(f"{self.name} ends in shape {end}, not {wanted}")
        padding.check(tuple(self.leaves()), end, classes)
        return shapes

    def parameters(self) -> tuple[Parameter, ...]:
        """The tensors that gradients change, in order."""
        return tuple(each for layer in self.layers for each in layer.parameters())

    def statistics(self) -> tuple[Parameter, ...]:
        """The running means and variances of the batch norms."""
        return tuple(each for layer in self.layers for each in layer.statistics())

    @property
    def parameter_count(self) -> int:
        return sum(parameter.size for parameter in self.parameters())

    @property
    def batch_norm_positions(self) -> int:
        """The most values of a sample in the mean of one batch norm; 0 without batch norms."""
        if not self.statistics():
            return 0
        positions = [math.prod(shape[1:]) for shape in self.shapes()[1:] if len(shape) == 3]
        # Without any, the batch norm is inside a branch, on the input itself.
        return max(positions, default=math.prod(self.input_shape[1:]))

    def flops_per_sample(self, mode: str) -> int:
        """The floating-point operations of convolutions, dense, attention and LSTM layers.

        A multiply-accumulate counts as two. Training adds as many operations for the gradients of
        the weights, and as many for those of the inputs. The first such layer needs no gradient of
        its input, unless that comes from an embedding.
        """
        forward = 2 * series_macs(self.layers, self.input_shape)
        if mode == "infer":
            return forward
        if self.takes_tokens:
            return 3 * forward
        return 3 * forward - 2 * first_input_gradient_macs(self.layers, self.input_shape)

    def bytes_per_sample(
        self, mode: str, batch_size: int, value_bytes: int = 4, *, accumulate: int = 1
    ) -> float:
        """The least memory traffic, with weights in float32 and others of `value_bytes` each.

        It assumes that every other operation is fused with a convolution or matrix product, and
        that no value stays in a cache. Training moves as many values for the gradients of the
        inputs, and as many for those of the weights. For each batch it reads the weights three
        times and writes them once, and it writes and reads their gradients. Each further
        micro-batch of those that it is divided into by `accumulate` reads the weights twice, and
        reads and writes the gradients.
        """
        values = series_values(self.layers, self.input_shape)
        times, weights = (1, 1) if mode == "infer" else (3, 2 + 4 * accumulate)
        return value_bytes * times * values + 4 * weights * self.parameter_count / batch_size

    def initial_weights(self, seed: int) -> NDArray[np.float32]:
        """One flat vector, in the order of `parameters`."""
        return self._weights(seed, constant_std=0.0)

    def inference_weights(self, seed: int) -> NDArray[np.float32]:
        """One flat vector, in the order of `parameters`, without those that start as a constant.

        Compilers remove the addition of a bias that is zero and the multiplication by a scale that
        is one, and a scale that is zero hides what was computed before it. Here these parameters,
        too, are random, as after training.
        """
        return self._weights(seed, constant_std=0.1)

    def _weights(self, seed: int, *, constant_std: float) -> NDArray[np.float32]:
        """Normal values; `constant_std` is the standard deviation of parameters that have none."""
        generator = np.random.default_rng(seed)
        drawn = (
            each.mean + (each.std or constant_std) * generator.standard_normal(each.size)
            for each in self.parameters()
        )
        return np.concatenate([values.astype(np.float32) for values in drawn])

    def inference_statistics(self, seed: int) -> NDArray[np.float32]:
        """One flat vector, in the order of `statistics`: random ones, unlike those of any batch.

        Means have a normal distribution around 0, variances a uniform one around 1.
        """
        generator = np.random.default_rng(seed)
        parts = [
            generator.uniform(0.5, 1.5, each.size)
            if each.name.endswith(".variance")
            else generator.normal(0.0, 0.1, each.size)
            for each in self.statistics()
        ]
        return np.concatenate([*parts, np.zeros(0)]).astype(np.float32)

    def to_json(self) -> dict[str, Any]:
        """The form of trial.json."""
        return {
            "name": self.name,
            "input_shape": self.input_shape,
            "classes": self.classes,
            "layers": series_to_json(self.layers, self.input_shape),
        }
