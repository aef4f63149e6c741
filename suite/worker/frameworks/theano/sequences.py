"""The layers of sequences (N, length, features) as Theano graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import theano.tensor as tt


def dense(sequence: Any, weight: Any, bias: Any = None) -> Any:
    """The product with `weight` (out, in) at each position, as one product of matrices."""
    batch, length = sequence.shape[0], sequence.shape[1]
    product = tt.dot(sequence.reshape((batch * length, sequence.shape[2])), weight.T)
    product = product if bias is None else product + bias
    return product.reshape((batch, length, weight.shape[0]))


def class_token(layer: dict[str, Any], sequence: Any, own: dict[str, Any]) -> Any:
    """The sequence with one vector more in front."""
    first = tt.alloc(own["weight"], sequence.shape[0], 1, sequence.shape[2])
    return tt.concatenate([first, sequence], axis=1)


def self_attention(layer: dict[str, Any], sequence: Any, own: dict[str, Any]) -> Any:
    """Attention of several heads, which computes the scores of all of them together."""
    length, features = layer["input_shape"]
    heads = layer["heads"]
    size = features // heads
    parts = dense(sequence, own["in_weight"], own["in_bias"])
    # (N, length, 3 x features) -> three of (N x heads, length, features / heads)
    parts = parts.reshape((-1, length, 3, heads, size)).dimshuffle(2, 0, 3, 1, 4)
    queries, keys, values = (parts[n].reshape((-1, length, size)) for n in range(3))
    scores = tt.batched_dot(
        queries * np.asarray(size**-0.5, sequence.dtype), keys.dimshuffle(0, 2, 1)
    )
    if layer["causal"]:
        # The exponential of so small a number is 0.
        scores = scores + np.triu(np.full((length, length), -1e30, sequence.dtype), 1)
    shares = tt.nnet.softmax(scores.reshape((-1, length))).reshape((-1, length, length))
    mixed = tt.batched_dot(shares, values).reshape((-1, heads, length, size))
    mixed = mixed.dimshuffle(0, 2, 1, 3).reshape((-1, length, features))
    return dense(mixed, own["out_weight"], own["out_bias"])
