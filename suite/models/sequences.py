"""Layers of recurrent networks and transformers; a sequence has the shape (length, features)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

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

    `embedding` is the name of that layer, whose weight receives the gradients of both. The bias,
    if there is one, is of this layer alone.
    """

    kind = "tied_head"
    embedding: str
    vocabulary: int
    features: int
    bias: bool = False

    def output_shape(self, shape: Shape) -> Shape:
        expect(self, shape, len(shape) == 2 and shape[1] == self.features)
        return (shape[0], self.vocabulary)

    def parameters(self) -> tuple[Parameter, ...]:
        bias = Parameter(name=f"{self.name}.bias", shape=(self.vocabulary,))
        return (bias,) if self.bias else ()

    @property
    def needs(self) -> frozenset[str]:
        return super().needs | ({"tied_head.bias"} if self.bias else set())

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
    """The sum of the sequence and one learned vector for each member; of length 1, for all."""

    kind = "position_embedding"
    length: int
    features: int

    def output_shape(self, shape: Shape) -> Shape:
        fits = len(shape) == 2 and self.length in (1, shape[0]) and shape[1] == self.features
        expect(self, shape, fits)
        return shape

    @property
    def needs(self) -> frozenset[str]:
        return super().needs | ({"position_embedding.length"} if self.length == 1 else set())

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
class MeanToken(Layer):
    """(length, features) to (features,): the mean of the members of the sequence.

    With `padding_id`, of those whose token in the model's input is another one; where there is no
    such token, of all.
    """

    kind = "mean_token"
    padding_id: int | None = None

    def output_shape(self, shape: Shape) -> Shape:
        expect(self, shape, len(shape) == 2)
        return shape[1:]

    @property
    def needs(self) -> frozenset[str]:
        return super().needs | (set() if self.padding_id is None else {"mean_token.padding_id"})


@dataclass(frozen=True, kw_only=True)
class Reverse(Layer):
    """The members of a sequence in the reverse order, as for a recurrent layer that runs back."""

    kind = "reverse"

    def output_shape(self, shape: Shape) -> Shape:
        expect(self, shape, len(shape) == 2)
        return shape


@dataclass(frozen=True, kw_only=True)
class SelfAttention(Layer):
    """softmax(q k' / sqrt(features / heads)) v for each head (Vaswani et al. 2017).

    Where it is `causal`, a member attends only to itself and to those before it. `in_weight` holds
    queries, keys and values, in that order; without `kv_heads` it is (3 x features, features).

    With `kv_heads`, that many heads of keys and values are each used by as many consecutive heads
    of queries (Ainslie et al. 2023).

    With `rotary_theta`, queries and keys are rotated by their position p (Su et al. 2021): pair i
    of the n values of a head by the angle p theta^(-2i / n). Pair i is values i and i + n / 2, or
    where `interleaved` values 2i and 2i + 1.

    With `padding_id`, a member attends only to members whose token in the model's input is another
    one. Where all are padding that it would attend to, it attends to them.
    """

    kind = "self_attention"
    features: int
    heads: int
    causal: bool = False
    bias: bool = True
    kv_heads: int | None = None  # None: `heads`
    rotary_theta: float | None = None
    interleaved: bool = False
    padding_id: int | None = None

    def __post_init__(self) -> None:
        if self.features % self.heads:
            raise ValueError(f"layer {self.name!r}: {self.heads} heads do not divide its features")
        if self.kv_heads is not None and self.heads % self.kv_heads:
            raise ValueError(f"layer {self.name!r}: kv_heads do not divide its heads")
        if self.rotary_theta is not None and self.features // self.heads % 2:
            raise ValueError(f"layer {self.name!r}: the size of a head is odd")

    def output_shape(self, shape: Shape) -> Shape:
        expect(self, shape, len(shape) == 2 and shape[1] == self.features)
        return shape

    @property
    def in_features(self) -> int:
        """The number of values of queries, keys and values of a member together."""
        size = self.features // self.heads
        return self.features + 2 * size * (self.kv_heads or self.heads)

    def parameters(self) -> tuple[Parameter, ...]:
        size, std = self.features, math.sqrt(1 / self.features)
        found = (
            Parameter(name=f"{self.name}.in_weight", shape=(self.in_features, size), std=std),
            Parameter(name=f"{self.name}.in_bias", shape=(self.in_features,)),
            Parameter(name=f"{self.name}.out_weight", shape=(size, size), std=std),
            Parameter(name=f"{self.name}.out_bias", shape=(size,)),
        )
        return found if self.bias else found[::2]

    def macs(self, shape: Shape) -> int:
        length, size = shape
        pairs = length * (length + 1) // 2 if self.causal else length * length
        return length * size * (self.in_features + size) + 2 * pairs * size

    @property
    def needs(self) -> frozenset[str]:
        fields_used = (
            *([] if self.bias else ["self_attention.bias"]),
            *([] if self.kv_heads is None else ["self_attention.kv_heads"]),
            *([] if self.rotary_theta is None else ["self_attention.rotary_theta"]),
            *([] if self.padding_id is None else ["self_attention.padding_id"]),
        )
        return super().needs | set(fields_used)


@dataclass(frozen=True, kw_only=True)
class Recurrent(Layer):
    """(length, in_features) to the last hidden state (hidden,); the initial states are zero.

    With `sequence`, to the hidden states of all members (length, hidden). `input_weight`
    (gates x hidden, in) and `hidden_weight` (gates x hidden, hidden) hold the gates one after the
    other.
    """

    gates: ClassVar[int]
    biases: ClassVar[tuple[str, ...]]
    in_features: int
    hidden: int
    sequence: bool = False

    def output_shape(self, shape: Shape) -> Shape:
        expect(self, shape, len(shape) == 2 and shape[1] == self.in_features)
        return (shape[0], self.hidden) if self.sequence else (self.hidden,)

    def parameters(self) -> tuple[Parameter, ...]:
        std, rows = math.sqrt(1 / self.hidden), self.gates * self.hidden
        return (
            Parameter(name=f"{self.name}.input_weight", shape=(rows, self.in_features), std=std),
            Parameter(name=f"{self.name}.hidden_weight", shape=(rows, self.hidden), std=std),
            *(Parameter(name=f"{self.name}.{role}", shape=(rows,)) for role in self.biases),
        )

    def macs(self, shape: Shape) -> int:
        return shape[0] * self.gates * self.hidden * (self.in_features + self.hidden)

    def input_gradient_macs(self, shape: Shape) -> int:
        """Without those of the gradients of the hidden states, which every step needs."""
        return shape[0] * self.gates * self.hidden * self.in_features

    @property
    def needs(self) -> frozenset[str]:
        return super().needs | ({f"{self.kind}.sequence"} if self.sequence else set())


@dataclass(frozen=True, kw_only=True)
class Lstm(Recurrent):
    """Hochreiter and Schmidhuber 1997 with forget gates (Gers et al. 2000) and one bias.

    The gates are in the order input, forget, cell, output.
    """

    kind = "lstm"
    gates = 4
    biases = ("bias",)


@dataclass(frozen=True, kw_only=True)
class Gru(Recurrent):
    """Cho et al. 2014, with the reset gate after the product with the hidden state, as in cuDNN.

    The gates are in the order reset, update, new. Both products have a bias, because that of the
    recurrent one is multiplied by the reset gate.
    """

    kind = "gru"
    gates = 3
    biases = ("bias", "hidden_bias")
