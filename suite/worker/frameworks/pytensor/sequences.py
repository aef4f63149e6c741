"""The layers of sequences (N, length, features) as PyTensor graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt


def dense(sequence: Any, weight: Any, bias: Any = None) -> Any:
    """The product with `weight` (out, in) at each position, as one product of matrices."""
    batch, length, features = sequence.type.shape
    flat = sequence.reshape((batch * length, features))
    product = pt.dot(flat, weight.T)
    product = product if bias is None else product + bias
    return product.reshape((batch, length, weight.type.shape[0]))


def class_token(layer: dict[str, Any], sequence: Any, own: dict[str, Any]) -> Any:
    """The sequence with one vector more in front."""
    batch, _, features = sequence.type.shape
    return pt.join(1, pt.alloc(own["weight"], batch, 1, features), sequence)


def self_attention(layer: dict[str, Any], sequence: Any, own: dict[str, Any]) -> Any:
    """Attention of several heads, which computes the scores of all of them together."""
    (batch, length, features), heads = sequence.type.shape, layer["heads"]
    size = features // heads
    parts = dense(sequence, own["in_weight"], own["in_bias"])
    # (N, length, 3 x features) -> three of (N, heads, length, features / heads)
    parts = parts.reshape((batch, length, 3, heads, size)).transpose(2, 0, 3, 1, 4)
    queries, keys, values = parts[0], parts[1], parts[2]
    scores = pt.matmul(queries * size**-0.5, keys.transpose(0, 1, 3, 2))
    if layer["causal"]:
        # The exponential of so small a number is 0.
        scores += np.triu(np.full((length, length), -1e30, sequence.dtype), 1)
    mixed = pt.matmul(pt.special.softmax(scores, axis=-1), values)
    mixed = mixed.transpose(0, 2, 1, 3).reshape((batch, length, features))
    return dense(mixed, own["out_weight"], own["out_bias"])


def lstm(layer: dict[str, Any], sequence: Any, own: dict[str, Any]) -> Any:
    """The last hidden state (hidden, N); the products with the inputs are one before the loop."""
    size = layer["hidden"]
    inputs = dense(sequence, own["input_weight"], own["bias"]).transpose(1, 0, 2)
    start = pt.zeros((sequence.type.shape[0], size), sequence.dtype)

    def step(entered: Any, hidden: Any, cell: Any, weight: Any) -> tuple[Any, Any]:
        gates = entered + pt.dot(hidden, weight.T)
        i, f, g, o = (gates[:, n * size : (n + 1) * size] for n in range(4))
        cell = pt.sigmoid(f) * cell + pt.sigmoid(i) * pt.tanh(g)
        return pt.sigmoid(o) * pt.tanh(cell), cell

    hidden, _ = pytensor.scan(
        step,
        sequences=inputs,
        outputs_info=[start, start],
        non_sequences=own["hidden_weight"],
        return_updates=False,
    )
    return hidden[-1].T
