"""Padding of sequences of tokens: the token that fills short ones, and which models can have it."""

from __future__ import annotations

from collections.abc import Sequence

from suite.models.layer import Layer, Shape

# After these, member i of a sequence is no longer token i of the input.
MOVING = ("class_token", "reverse")


def padding_of(leaves: Sequence[Layer]) -> int | None:
    """The `padding_id` of a model's layers; None where every token is one of the sample."""
    return next((found for each in leaves if (found := _padding_id(each)) is not None), None)


def check(leaves: Sequence[Layer], end: Shape, classes: int) -> None:
    """Raise ValueError where a model has padding, and it is unknown where or what its loss is.

    `end` is the shape of the model's output.
    """
    padding_id = padding_of(leaves)
    if padding_id is None:
        return
    first = leaves[0]
    if first.kind != "embedding":
        raise ValueError("padding_id needs a model of tokens, whose first layer is an embedding")
    if not 0 <= padding_id < getattr(first, "vocabulary"):  # noqa: B009, a field of embeddings
        raise ValueError(f"padding_id {padding_id} is not in the vocabulary of {first.name!r}")
    for layer in leaves:
        if _padding_id(layer) not in (None, padding_id):
            raise ValueError(f"layer {layer.name!r} has another padding_id than those before it")
        if layer.kind in MOVING:
            raise ValueError(
                f"a model with padding_id has no {layer.kind} ({layer.name!r}): it moves the"
                " members of a sequence away from their tokens"
            )
    if end != (classes,):
        raise ValueError(
            "a model with padding_id has one result for a sequence, for example by mean_token:"
            " there is no loss for each token that leaves padding out"
        )


def _padding_id(layer: Layer) -> int | None:
    """The field of this name, which some kinds have."""
    return getattr(layer, "padding_id", None)
