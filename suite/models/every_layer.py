"""Twelve small models that hold every kind of layer, for the self-test and for tests.

They follow no published network.
"""

from typing import Any

from suite.models.architecture import Architecture
from suite.models.branches import Add, Concat, Multiply
from suite.models.layers import (
    AvgPool2d,
    BatchNorm,
    ChannelShuffle,
    ChannelSlice,
    Conv2d,
    Cropping2d,
    Dense,
    Dropout,
    Flatten,
    Gelu,
    GlobalAvgPool2d,
    GroupNorm,
    HardSigmoid,
    HardSwish,
    Layer,
    LayerNorm,
    LeakyRelu,
    LocalResponseNorm,
    MaxPool2d,
    Relu,
    Relu6,
    RmsNorm,
    Scale,
    Sigmoid,
    Silu,
    Tanh,
    TransposedConv2d,
    Upsample,
    ZeroPadding2d,
)
from suite.models.sequences import (
    ClassToken,
    Embedding,
    FirstToken,
    Gru,
    Lstm,
    MeanToken,
    PositionEmbedding,
    Reverse,
    Rows,
    SelfAttention,
    TiedHead,
    Tokens,
)
from suite.models.windows import PatchMerging, WindowAttention


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


def every_response() -> Architecture:
    """Local response norms in a series, as in AlexNet; with sizes at which alpha is visible."""
    layers: tuple[Layer, ...] = (
        Conv2d(name="conv1", in_channels=1, out_channels=8, kernel=(5, 5), stride=(2, 2)),
        Relu(name="relu1"),  # 8 x 12 x 12
        LocalResponseNorm(name="norm1", size=5, alpha=1.0, k=2.0),
        MaxPool2d(name="max_pool", kernel=(2, 2), stride=(2, 2)),  # 8 x 6 x 6
        Conv2d(name="conv2", in_channels=8, out_channels=12, kernel=(3, 3)),  # 12 x 4 x 4
        LocalResponseNorm(name="norm2", size=3, alpha=0.5, beta=0.5),
        Relu(name="relu2"),
        Flatten(name="flatten"),
        Dense(name="classes", in_features=192, out_features=10),
    )
    return Architecture(name="every_response", input_shape=(1, 28, 28), classes=10, layers=layers)


def every_signal() -> Architecture:
    """Layers along one axis: those of images of height 1."""
    same: dict[str, Any] = {"kernel": (1, 3), "padding": (0, 1)}
    long: dict[str, Any] = {"kernel": (1, 7), "padding": (0, 3), "bias": False}
    layers: tuple[Layer, ...] = (
        Conv2d(name="conv1", in_channels=2, out_channels=8, stride=(1, 2), **long),  # 8 x 1 x 32
        BatchNorm(name="norm", channels=8),
        Relu(name="relu1"),
        MaxPool2d(name="max_pool", stride=(1, 2), **same),  # 8 x 1 x 16
        Add(
            name="add",
            branches=((), (Conv2d(name="conv2", in_channels=8, out_channels=8, **same),)),
        ),
        Relu(name="relu2"),
        AvgPool2d(name="avg_pool", kernel=(1, 2), stride=(1, 2)),  # 8 x 1 x 8
        GlobalAvgPool2d(name="mean"),
        Dense(name="classes", in_features=8, out_features=10),
    )
    return Architecture(name="every_signal", input_shape=(2, 1, 64), classes=10, layers=layers)


def every_mobile() -> Architecture:
    """The layers of mobile networks: groups, dilation, gates, their activations."""
    same: dict[str, Any] = {"kernel": (3, 3), "padding": (1, 1)}
    gate = (
        AvgPool2d(name="squeeze", kernel=(7, 7), stride=(7, 7)),
        Conv2d(name="reduce", in_channels=16, out_channels=4, kernel=(1, 1)),
        Silu(name="silu"),
        Conv2d(name="excite", in_channels=4, out_channels=16, kernel=(1, 1)),
        Sigmoid(name="sigmoid"),
    )
    block = (
        Conv2d(name="grouped", in_channels=16, out_channels=16, groups=4, **same),
        LeakyRelu(name="leaky_relu", slope=0.1),
        Dropout(name="whole_dropout", rate=0.25, whole=True),
    )
    wide: dict[str, Any] = {"kernel": (3, 3), "padding": (2, 2), "dilation": (2, 2)}
    layers: tuple[Layer, ...] = (
        Conv2d(name="conv", in_channels=1, out_channels=8, stride=(2, 2), **same),  # 8 x 14 x 14
        Relu6(name="relu6"),
        Conv2d(name="depthwise", in_channels=8, out_channels=16, groups=8, stride=(2, 2), **same),
        HardSwish(name="hard_swish"),  # 16 x 7 x 7
        Multiply(name="gated", branches=(gate, ())),
        Add(name="add", branches=((), block)),
        Conv2d(name="dilated", in_channels=16, out_channels=16, **wide),
        HardSigmoid(name="hard_sigmoid", slope=0.2),
        GlobalAvgPool2d(name="pool"),
        Dense(name="classes", in_features=16, out_features=10),
    )
    return Architecture(name="every_mobile", input_shape=(1, 28, 28), classes=10, layers=layers)


def every_window() -> Architecture:
    """Windows with uneven padding, and averages in which padding does not count."""
    uneven: dict[str, Any] = {"kernel": (3, 3), "stride": (2, 2), "extra_padding": (1, 1)}
    average: dict[str, Any] = {"kernel": (3, 3), "stride": (2, 2), "count_padding": False}
    layers: tuple[Layer, ...] = (
        Conv2d(name="conv", in_channels=1, out_channels=8, **uneven),  # 8 x 14 x 14
        MaxPool2d(name="max_pool", **uneven),  # 8 x 7 x 7
        AvgPool2d(name="avg_pool", **average, padding=(1, 1)),  # 8 x 4 x 4
        AvgPool2d(name="uneven_avg_pool", **average, extra_padding=(1, 1)),  # 8 x 2 x 2
        Flatten(name="flatten"),
        Dense(name="classes", in_features=32, out_features=10),
    )
    return Architecture(name="every_window", input_shape=(1, 28, 28), classes=10, layers=layers)


def every_channel() -> Architecture:
    """The layers of ConvNeXt and ShuffleNet; sides of images, and a norm of vectors."""
    block = (
        LayerNorm(name="norm", features=32, images=True),
        Conv2d(name="mixed", in_channels=32, out_channels=32, kernel=(1, 1)),
        Gelu(name="gelu", approximate=True),
        Scale(name="scale", channels=32),
    )
    halves = (
        (ChannelSlice(name="left", start=0, stop=12),),
        (
            ChannelSlice(name="right", start=12, stop=32),
            Conv2d(name="point", in_channels=20, out_channels=12, kernel=(1, 1)),
        ),
    )
    layers: tuple[Layer, ...] = (
        Conv2d(name="conv", in_channels=1, out_channels=32, kernel=(4, 4), stride=(4, 4)),
        Add(name="add", branches=((), block)),  # 32 x 7 x 7
        Concat(name="concat", branches=halves),  # 24 x 7 x 7
        ChannelShuffle(name="shuffle", groups=2),
        ZeroPadding2d(name="zeros", top=1, right=3, bottom=2),  # 24 x 10 x 10
        Cropping2d(name="cropping", top=2, left=1, bottom=1),  # 24 x 7 x 9
        Conv2d(name="last", in_channels=24, out_channels=32, kernel=(3, 3)),
        GlobalAvgPool2d(name="pool"),
        Dense(name="hidden", in_features=32, out_features=16, bias=False),
        BatchNorm(name="vector_norm", channels=16, images=False),
        Dense(name="classes", in_features=16, out_features=10),
    )
    return Architecture(name="every_channel", input_shape=(1, 28, 28), classes=10, layers=layers)


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


def every_decoder() -> Architecture:
    """The layers by which images grow, and the norms of groups of channels."""
    larger: dict[str, Any] = {"in_channels": 16, "out_channels": 8}
    both = (
        (Upsample(name="nearest", factor=(2, 1)),),
        (Upsample(name="bilinear", factor=(2, 1), mode="bilinear"),),
    )
    layers: tuple[Layer, ...] = (
        Conv2d(name="conv", in_channels=1, out_channels=16, kernel=(4, 4), stride=(4, 4)),
        GroupNorm(name="group_norm", channels=16, groups=4),  # 16 x 7 x 7
        Relu(name="relu"),
        TransposedConv2d(
            name="twice", kernel=(3, 3), stride=(2, 2), padding=(1, 1), extra=(1, 1), **larger
        ),  # 8 x 14 x 14
        GroupNorm(name="instance_norm", channels=8, groups=8),
        Concat(name="concat", branches=both),  # 16 x 28 x 14
        TransposedConv2d(
            name="uneven", kernel=(2, 3), stride=(2, 1), padding=(0, 1), bias=False, **larger
        ),  # 8 x 56 x 14
        AvgPool2d(name="avg_pool", kernel=(8, 7), stride=(8, 7)),  # 8 x 7 x 2
        Flatten(name="flatten"),
        Dense(name="classes", in_features=112, out_features=10),
    )
    return Architecture(name="every_decoder", input_shape=(1, 28, 28), classes=10, layers=layers)


def every_attention() -> Architecture:
    """Attention as in large language models, a gated perceptron, and recurrent sequences."""
    grouped: dict[str, Any] = {"heads": 4, "kv_heads": 2, "rotary_theta": 1e4, "bias": False}
    attention = (
        # The corners of digits are empty: a smaller epsilon would enlarge what is only rounding.
        RmsNorm(name="norm1", features=16, epsilon=1e-2),
        SelfAttention(name="grouped", features=16, causal=True, **grouped),
    )
    up: dict[str, Any] = {"in_features": 16, "out_features": 32, "bias": False}
    gate = (Dense(name="gate", **up), Silu(name="silu"))
    perceptron = (
        RmsNorm(name="norm2", features=16, epsilon=1e-2),
        Multiply(name="gated", branches=(gate, (Dense(name="up", **up),))),
        Dense(name="down", in_features=32, out_features=16, bias=False),
    )
    turned: dict[str, Any] = {"heads": 2, "rotary_theta": 100.0, "interleaved": True}
    second = (
        RmsNorm(name="norm3", features=16),
        SelfAttention(name="turned", features=16, **turned),
    )
    sizes: dict[str, Any] = {"in_features": 16, "hidden": 16}
    half: dict[str, Any] = {"in_features": 16, "hidden": 8, "sequence": True}
    backward = (Reverse(name="turn"), Gru(name="backward", **half), Reverse(name="turn_back"))
    directions = Concat(
        name="directions", sequence=True, branches=((Lstm(name="forward", **half),), backward)
    )
    recurrent = (
        (directions, MeanToken(name="mean_of_directions")),
        (Lstm(name="lstm", sequence=True, **sizes), MeanToken(name="mean")),
        (Gru(name="gru", sequence=True, **sizes), Gru(name="last_gru", **sizes)),
        (SelfAttention(name="plain", features=16, heads=2, bias=False), FirstToken(name="first")),
    )
    window: dict[str, Any] = {"kernel": (7, 7), "stride": (7, 7)}
    layers: tuple[Layer, ...] = (
        Conv2d(name="patches", in_channels=1, out_channels=16, **window),
        Tokens(name="tokens"),  # 16 tokens of 16
        Add(name="add1", branches=((), attention)),
        Add(name="add2", branches=((), perceptron)),
        Add(name="add3", branches=((), second)),
        RmsNorm(name="norm4", features=16),
        Add(name="add4", branches=recurrent),
        Dense(name="classes", in_features=16, out_features=10),
    )
    return Architecture(name="every_attention", input_shape=(1, 28, 28), classes=10, layers=layers)


def every_text() -> Architecture:
    """What BERT has more than GPT: a vector for all tokens, and a bias of the head."""
    sizes = {"vocabulary": 256, "features": 16}
    layers: tuple[Layer, ...] = (
        Embedding(name="embedding", **sizes),
        PositionEmbedding(name="segment", length=1, features=16),
        LayerNorm(name="norm", features=16),
        SelfAttention(name="attention", features=16, heads=2),
        TiedHead(name="head", embedding="embedding", bias=True, **sizes),
    )
    return Architecture(name="every_text", input_shape=(32,), classes=256, layers=layers)


def every_padded() -> Architecture:
    """Sequences of several lengths, filled with token 1, which attention and the mean leave out."""
    grouped: dict[str, Any] = {"heads": 4, "kv_heads": 2, "rotary_theta": 1e4}
    block = (
        LayerNorm(name="norm1", features=16),
        SelfAttention(name="causal", features=16, causal=True, padding_id=1, **grouped),
    )
    whole = (SelfAttention(name="whole", features=16, heads=2),)
    layers: tuple[Layer, ...] = (
        Embedding(name="embedding", vocabulary=64, features=16),
        PositionEmbedding(name="positions", length=24, features=16),
        LayerNorm(name="norm0", features=16),
        SelfAttention(name="attention", features=16, heads=2, padding_id=1),
        Add(name="add", branches=((), block, whole)),
        MeanToken(name="mean", padding_id=1),
        Dense(name="classes", in_features=16, out_features=10),
    )
    return Architecture(name="every_padded", input_shape=(24,), classes=10, layers=layers)


def every_swin() -> Architecture:
    """The layers of Swin transformers."""
    sizes: dict[str, Any] = {"features": 8, "heads": 2, "window": (7, 7)}
    plain = (
        LayerNorm(name="norm1", features=8, images=True),
        WindowAttention(name="windows", **sizes),
    )
    shifted = (
        LayerNorm(name="norm2", features=8, images=True),
        WindowAttention(name="shifted", shift=(3, 2), **sizes),
    )
    layers: tuple[Layer, ...] = (
        Conv2d(name="patches", in_channels=1, out_channels=8, kernel=(2, 2), stride=(2, 2)),
        Add(name="add1", branches=((), plain)),  # 8 x 14 x 14
        Add(name="add2", branches=((), shifted)),
        PatchMerging(name="merging"),  # 32 x 7 x 7
        LayerNorm(name="norm3", features=32, images=True),
        GlobalAvgPool2d(name="pool"),
        Dense(name="classes", in_features=32, out_features=10),
    )
    return Architecture(name="every_swin", input_shape=(1, 28, 28), classes=10, layers=layers)
