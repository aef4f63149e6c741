"""Layers of recurrent networks and transformers; a sequence has the shape (length, features)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from suite.models.layer import Layer, Parameter, Shape, expect


@dataclass(frozen=True, kw_only=True)
class Embedding(Layer):
    """The sequence of learned vectors (length, features) of the tokens (length,)."""

    kind = "embedding"
    vocabulary: int
    features: int

    def output_shape(self, shape: Shape) -> Shape:
        expect(self, shape, len(shape) == 1)
        return (*shape, self.features)

    def parameters(self) -> tuple[Parameter, ...]:
        shape = (self.vocabulary, self.features)
        return (Parameter(name=f"{self.name}.weight", shape=shape, std=0.02),)


@dataclass(frozen=True, kw_only=True)
class TiedHead(Layer):
    """The scores of all tokens: the product with the weight of an embedding (Press and Wolf 2017).

    `embedding` is the name of that layer, whose weight receives the gradients of both.
    """

    kind = "tied_head"
    embedding: str
    vocabulary: int
    features: int

    def output_shape(self, shape: Shape) -> Shape:
        expect(self, shape, len(shape) == 2 and shape[1] == self.features)
        return (shape[0], self.vocabulary)

    def macs(self, shape: Shape) -> int:
        return shape[0] * self.features * self.vocabulary


@dataclass(frozen=True, kw_only=True)
class Rows(Layer):
    """A grey image (1, height, width) to the sequence of its rows (height, width)."""

    kind = "rows"

    def output_shape(self, shape: Shape) -> Shape:
        expect(self, shape, len(shape) == 3 and shape[0] == 1)
        return shape[1:]


@dataclass(frozen=True, kw_only=True)
class Tokens(Layer):
    """(channels, height, width) to the sequence (height x width, channels), row by row."""

    kind = "tokens"

    def output_shape(self, shape: Shape) -> Shape:
        expect(self, shape, len(shape) == 3)
        return (shape[1] * shape[2], shape[0])


@dataclass(frozen=True, kw_only=True)
class ClassToken(Layer):
    """One learned vector, prepended to the sequence."""

    kind = "class_token"
    features: int

    def output_shape(self, shape: Shape) -> Shape:
        expect(self, shape, len(shape) == 2 and shape[1] == self.features)
        return (shape[0] + 1, shape[1])

    def parameters(self) -> tuple[Parameter, ...]:
        return (Parameter(name=f"{self.name}.weight", shape=(self.features,), std=0.02),)


@dataclass(frozen=True, kw_only=True)
class PositionEmbedding(Layer):
    """The sum of the sequence and one learned vector for each member."""

    kind = "position_embedding"
    length: int
    features: int

    def output_shape(self, shape: Shape) -> Shape:
        expect(self, shape, shape == (self.length, self.features))
        return shape

    def parameters(self) -> tuple[Parameter, ...]:
        shape = (self.length, self.features)
        return (Parameter(name=f"{self.name}.weight", shape=shape, std=0.02),)


@dataclass(frozen=True, kw_only=True)
class FirstToken(Layer):
    """(length, features) to (features,): the first member of the sequence."""

    kind = "first_token"

    def output_shape(self, shape: Shape) -> Shape:
        expect(self, shape, len(shape) == 2)
        return shape[1:]


@dataclass(frozen=True, kw_only=True)
class SelfAttention(Layer):
    """softmax(q k' / sqrt(features / heads)) v for each head (Vaswani et al. 2017).

    Where it is `causal`, a member attends only to itself and to those before it. `in_weight`
    (3 x features, features) holds queries, keys and values, in that order.
    """

    kind = "self_attention"
    features: int
    heads: int
    causal: bool = False

    def output_shape(self, shape: Shape) -> Shape:
        expect(self, shape, len(shape) == 2 and shape[1] == self.features)
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
        pairs = length * (length + 1) // 2 if self.causal else length * length
        return 4 * length * size * size + 2 * pairs * size


@dataclass(frozen=True, kw_only=True)
class Lstm(Layer):
    """(length, in_features) to the last hidden state (hidden,); the initial states are zero.

    Hochreiter and Schmidhuber 1997 with forget gates (Gers et al. 2000) and one bias.
    `input_weight` (4 x hidden, in) and `hidden_weight` (4 x hidden, hidden) hold the gates in the
    order input, forget, cell, output.
    """

    kind = "lstm"
    in_features: int
    hidden: int

    def output_shape(self, shape: Shape) -> Shape:
        expect(self, shape, len(shape) == 2 and shape[1] == self.in_features)
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

    def input_gradient_macs(self, shape: Shape) -> int:
        """Without those of the gradients of the hidden states, which every step needs."""
        return shape[0] * 4 * self.hidden * self.in_features
