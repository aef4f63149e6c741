"""All kinds of layers but those of sequences and branches, for the modules of the models."""

from suite.models.activations import (
    Gelu,
    HardSigmoid,
    HardSwish,
    LeakyRelu,
    Relu,
    Relu6,
    Sigmoid,
    Silu,
    Tanh,
)
from suite.models.features import Dense, Dropout
from suite.models.images import (
    AvgPool2d,
    ChannelShuffle,
    ChannelSlice,
    Conv2d,
    Cropping2d,
    Flatten,
    GlobalAvgPool2d,
    MaxPool2d,
    ZeroPadding2d,
    conv_norm,
)
from suite.models.layer import Layer, Pair, Parameter, Shape, expect
from suite.models.norms import BatchNorm, LayerNorm, Scale, scale

__all__ = [
    "AvgPool2d",
    "BatchNorm",
    "ChannelShuffle",
    "ChannelSlice",
    "Conv2d",
    "Cropping2d",
    "Dense",
    "Dropout",
    "Flatten",
    "Gelu",
    "GlobalAvgPool2d",
    "HardSigmoid",
    "HardSwish",
    "Layer",
    "LayerNorm",
    "LeakyRelu",
    "MaxPool2d",
    "Pair",
    "Parameter",
    "Relu",
    "Relu6",
    "Scale",
    "Shape",
    "Sigmoid",
    "Silu",
    "Tanh",
    "ZeroPadding2d",
    "conv_norm",
    "expect",
    "scale",
]
