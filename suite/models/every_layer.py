"""Two small models that hold every kind of layer, for the self-test and for tests.

They follow no published network.
"""

from typing import Any

from suite.models.architecture import Architecture
from suite.models.branches import Add, Concat
from suite.models.layers import (
    AvgPool2d,
    BatchNorm,
    Conv2d,
    Dense,
    Dropout,
    Flatten,
    Gelu,
    GlobalAvgPool2d,
    Layer,
    LayerNorm,
    MaxPool2d,
    Relu,
    Tanh,
)
from suite.models.sequences import (
    ClassToken,
    FirstToken,
    Lstm,
    PositionEmbedding,
    Rows,
    SelfAttention,
    Tokens,
)


def every_layer() -> Architecture:
    """All layers of image models, including dropout and flatten."""
    same: dict[str, Any] = {"kernel": (3, 3), "padding": (1, 1)}
    first: dict[str, Any] = {"stride": (2, 2), "bias": False}
    layers: tuple[Layer, ...] = (
        Conv2d(name="conv1", in_channels=1, out_channels=8, **same, **first),  # 8 x 14 x 14
        BatchNorm(name="norm1", channels=8),
        Relu(name="relu1"),
        AvgPool2d(name="avg_pool", kernel=(3, 3), stride=(2, 2), padding=(1, 1)),  # 8 x 7 x 7
        Add(
            name="add",
            branches=((Conv2d(name="conv2", in_channels=8, out_channels=8, **same),), ()),
        ),
        MaxPool2d(name="max_pool", kernel=(2, 2), stride=(2, 2), ceil=True),  # 8 x 4 x 4
        Concat(
            name="concat",
            branches=(
                (
                    Relu(name="relu3"),  # must not compute in place: pool3 has the same input
                    Conv2d(name="conv3", in_channels=8, out_channels=8, kernel=(1, 1)),
                ),
                (MaxPool2d(name="pool3", kernel=(3, 3), stride=(1, 1), padding=(1, 1)),),
            ),
        ),  # 16 x 4 x 4
        Dropout(name="dropout", rate=0.5),
        Flatten(name="flatten"),
        Dense(name="dense1", in_features=256, out_features=32),
        Tanh(name="tanh"),
        Dense(name="classes", in_features=32, out_features=10),
    )
    return Architecture(name="every_layer", input_shape=(1, 28, 28), classes=10, layers=layers)


def every_sequence() -> Architecture:
    """All layers of sequence models: an LSTM and a transformer's block as parallel branches."""
    attention = (
        LayerNorm(name="norm1", features=16),
        SelfAttention(name="attention", features=16, heads=2),
    )
    window: dict[str, Any] = {"kernel": (7, 7), "stride": (7, 7)}
    transformer = (
        Conv2d(name="patches", in_channels=1, out_channels=16, **window, bias=False),
        BatchNorm(name="patches_norm", channels=16),
        Tokens(name="tokens"),  # 16 tokens of 16
        ClassToken(name="class_token", features=16),
        PositionEmbedding(name="positions", length=17, features=16),
        Add(name="add1", branches=((), attention)),
        LayerNorm(name="norm2", features=16),
        Gelu(name="gelu"),
        FirstToken(name="first_token"),
    )
    recurrent = (Rows(name="rows"), Lstm(name="lstm", in_features=28, hidden=16))
    pooled = (
        Conv2d(name="conv", in_channels=1, out_channels=16, kernel=(3, 3), bias=False),
        GlobalAvgPool2d(name="global_pool"),
    )
    layers: tuple[Layer, ...] = (
        Add(name="add2", branches=(transformer, recurrent, pooled)),
        Dense(name="classes", in_features=16, out_features=10, bias=False),
    )
    return Architecture(name="every_sequence", input_shape=(1, 28, 28), classes=10, layers=layers)
