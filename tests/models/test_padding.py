"""Models of sequences with padding."""

from dataclasses import replace
from typing import Any

import pytest

from suite.models import MODELS
from suite.models.architecture import Architecture
from suite.models.from_json import architecture_of
from suite.models.layer import Layer
from suite.models.layers import Conv2d, Dense
from suite.models.sequences import (
    ClassToken,
    Embedding,
    MeanToken,
    Reverse,
    SelfAttention,
    TiedHead,
    Tokens,
)

EMBEDDING = Embedding(name="embedding", vocabulary=8, features=4)
END: tuple[Layer, ...] = (
    MeanToken(name="mean", padding_id=0),
    Dense(name="classes", in_features=4, out_features=3),
)


def made(*layers: Layer, **changes: Any) -> Architecture:
    values = {"name": "made", "input_shape": (5,), "classes": 3, "layers": layers, **changes}
    return Architecture(**values)


def attention(padding_id: int | None) -> SelfAttention:
    return SelfAttention(name="attention", features=4, heads=2, padding_id=padding_id)


def test_a_model_with_padding_has_one_result_for_a_sequence() -> None:
    model = made(EMBEDDING, attention(0), *END)
    assert model.shapes()[-1] == (3,) and model.positions == () and model.padding_id == 0
    assert architecture_of(model.to_json()) == model
    assert {"self_attention.padding_id", "mean_token.padding_id"} <= {
        each for layer in model.leaves() for each in layer.needs
    }


def test_padding_counts_in_flops_and_bytes() -> None:
    padded, full = made(EMBEDDING, attention(0), *END), made(EMBEDDING, attention(None), *END)
    assert padded.flops_per_sample("train") == full.flops_per_sample("train")
    assert padded.bytes_per_sample("train", 8) == full.bytes_per_sample("train", 8)


HEAD = TiedHead(name="head", embedding="embedding", vocabulary=8, features=4)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (made(EMBEDDING, attention(0), HEAD, classes=8), "no loss for each token"),
        (made(EMBEDDING, attention(8), *END), "padding_id 8 is not in the vocabulary"),
        (made(EMBEDDING, attention(-1), *END), "padding_id -1 is not in the vocabulary"),
        (made(EMBEDDING, attention(1), *END), "'mean' has another padding_id"),
        (made(EMBEDDING, ClassToken(name="c", features=4), *END), "has no class_token"),
        (made(EMBEDDING, Reverse(name="r"), *END), r"has no reverse \('r'\)"),
        (
            made(
                Conv2d(name="conv", in_channels=1, out_channels=4, kernel=(1, 1)),
                Tokens(name="tokens"),
                *END,
                input_shape=(1, 5, 1),
            ),
            "needs a model of tokens",
        ),
    ],
)
def test_padding_that_has_no_meaning_is_refused(model: Architecture, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        model.shapes()


def test_a_model_without_padding_may_have_one_result_for_a_sequence() -> None:
    model = MODELS["every_padded"]()
    made(EMBEDDING, attention(None), MeanToken(name="mean"), END[1]).shapes()
    with pytest.raises(ValueError, match=r"not \(24, 10\) or \(10,\)"):
        replace(model, layers=model.layers[:-1]).shapes()
