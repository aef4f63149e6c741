"""GoogLeNet (Szegedy et al. 2014) with batch norm and without auxiliary heads.

ImageNet form: torchvision's definition, whose "5 x 5" branch has a 3 x 3 convolution; 6,624,904
parameters. CIFAR-10 form: the definition of kuangliu/pytorch-cifar, whose "5 x 5" branch has two
3 x 3 convolutions. It omits the biases before batch norms, which have no effect: 6,158,346
parameters of the original's 6,166,250.
"""

from typing import Any

from suite.models.architecture import Architecture
from suite.models.branches import Concat
from suite.models.layers import Dense, Dropout, GlobalAvgPool2d, Layer, MaxPool2d, Relu, conv_norm

# Channels: input; 1 x 1; 3 x 3 reduced and full; "5 x 5" reduced and full; after the pool
Sizes = tuple[int, int, int, int, int, int, int]
STAGE_3: dict[str, Sizes] = {
    "3a": (192, 64, 96, 128, 16, 32, 32),
    "3b": (256, 128, 128, 192, 32, 96, 64),
}
STAGE_4: dict[str, Sizes] = {
    "4a": (480, 192, 96, 208, 16, 48, 64),
    "4b": (512, 160, 112, 224, 24, 64, 64),
    "4c": (512, 128, 128, 256, 24, 64, 64),
    "4d": (512, 112, 144, 288, 32, 64, 64),
    "4e": (528, 256, 160, 320, 32, 128, 128),
}
STAGE_5: dict[str, Sizes] = {
    "5a": (832, 256, 160, 320, 32, 128, 128),
    "5b": (832, 384, 192, 384, 48, 128, 128),
}


def googlenet() -> Architecture:
    epsilon = 1e-3
    layers = (
        *_conv("conv1", 3, 64, 7, epsilon, stride=2),  # 64 x 112 x 112
        MaxPool2d(name="pool1", kernel=(3, 3), stride=(2, 2), ceil=True),
        *_conv("conv2", 64, 64, 1, epsilon),
        *_conv("conv3", 64, 192, 3, epsilon),  # 192 x 56 x 56
        MaxPool2d(name="pool2", kernel=(3, 3), stride=(2, 2), ceil=True),
        *_stage(STAGE_3, epsilon, fives=1),  # 480 x 28 x 28
        MaxPool2d(name="pool3", kernel=(3, 3), stride=(2, 2), ceil=True),
        *_stage(STAGE_4, epsilon, fives=1),  # 832 x 14 x 14
        MaxPool2d(name="pool4", kernel=(2, 2), stride=(2, 2), ceil=True),
        *_stage(STAGE_5, epsilon, fives=1),  # 1024 x 7 x 7
        GlobalAvgPool2d(name="pool5"),
        Dropout(name="dropout", rate=0.2),
        Dense(name="classes", in_features=1024, out_features=1000),
    )
    return Architecture(name="googlenet", input_shape=(3, 224, 224), classes=1000, layers=layers)


def googlenet_cifar10() -> Architecture:
    epsilon = 1e-5
    half: dict[str, Any] = {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1)}
    layers = (
        *_conv("conv1", 3, 192, 3, epsilon),  # 192 x 32 x 32
        *_stage(STAGE_3, epsilon, fives=2),
        MaxPool2d(name="pool3", **half),  # 480 x 16 x 16
        *_stage(STAGE_4, epsilon, fives=2),
        MaxPool2d(name="pool4", **half),  # 832 x 8 x 8
        *_stage(STAGE_5, epsilon, fives=2),
        GlobalAvgPool2d(name="pool5"),
        Dense(name="classes", in_features=1024, out_features=10),
    )
    return Architecture(
        name="googlenet_cifar10", input_shape=(3, 32, 32), classes=10, layers=layers
    )


def _stage(blocks: dict[str, Sizes], epsilon: float, *, fives: int) -> tuple[Layer, ...]:
    return tuple(_inception(name, sizes, epsilon, fives) for name, sizes in blocks.items())


def _inception(name: str, sizes: Sizes, epsilon: float, fives: int) -> Layer:
    """An inception block. `fives` convolutions of 3 x 3 replace the paper's 5 x 5."""
    inputs, ones, threes_reduced, threes, fives_reduced, outputs, pooled = sizes
    chain = _conv(f"{name}_5x5_reduce", inputs, fives_reduced, 1, epsilon)
    channels = fives_reduced
    for number in range(fives):
        chain += _conv(f"{name}_5x5_{number}", channels, outputs, 3, epsilon)
        channels = outputs
    same: dict[str, Any] = {"kernel": (3, 3), "stride": (1, 1), "padding": (1, 1)}
    return Concat(
        name=f"{name}_concat",
        branches=(
            _conv(f"{name}_1x1", inputs, ones, 1, epsilon),
            (
                *_conv(f"{name}_3x3_reduce", inputs, threes_reduced, 1, epsilon),
                *_conv(f"{name}_3x3", threes_reduced, threes, 3, epsilon),
            ),
            chain,
            (
                MaxPool2d(name=f"{name}_pool", **same),
                *_conv(f"{name}_pool_1x1", inputs, pooled, 1, epsilon),
            ),
        ),
    )


def _conv(
    name: str, inputs: int, outputs: int, kernel: int, epsilon: float, *, stride: int = 1
) -> tuple[Layer, ...]:
    """A convolution without bias, its batch norm and its ReLU."""
    layers = conv_norm(name, inputs, outputs, kernel=kernel, stride=stride, epsilon=epsilon)
    return (*layers, Relu(name=f"{name}_relu"))
