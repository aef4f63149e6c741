"""VGG-16 (Simonyan and Zisserman 2014, configuration D), without batch norm.

ImageNet form: torchvision's definition, 138,357,544 parameters. CIFAR-10 form: the definition of
chengyangfu/pytorch-vgg-cifar10, with the same convolutions and dense layers of 512, 15,245,130
parameters.
"""

from typing import Any

from suite.models.architecture import Architecture
from suite.models.layers import Conv2d, Dense, Dropout, Flatten, Layer, MaxPool2d, Relu

BLOCKS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))


def vgg16() -> Architecture:
    layers = (
        *_features(),  # 512 x 7 x 7
        Flatten(name="flatten"),
        Dense(name="dense1", in_features=25088, out_features=4096),
        Relu(name="dense1_relu"),
        Dropout(name="dropout1", rate=0.5),
        Dense(name="dense2", in_features=4096, out_features=4096),
        Relu(name="dense2_relu"),
        Dropout(name="dropout2", rate=0.5),
        Dense(name="classes", in_features=4096, out_features=1000),
    )
    return Architecture(name="vgg16", input_shape=(3, 224, 224), classes=1000, layers=layers)


def vgg16_cifar10() -> Architecture:
    layers = (
        *_features(),  # 512 x 1 x 1
        Flatten(name="flatten"),
        Dropout(name="dropout1", rate=0.5),
        Dense(name="dense1", in_features=512, out_features=512),
        Relu(name="dense1_relu"),
        Dropout(name="dropout2", rate=0.5),
        Dense(name="dense2", in_features=512, out_features=512),
        Relu(name="dense2_relu"),
        Dense(name="classes", in_features=512, out_features=10),
    )
    return Architecture(name="vgg16_cifar10", input_shape=(3, 32, 32), classes=10, layers=layers)


def _features() -> tuple[Layer, ...]:
    layers: list[Layer] = []
    channels = 3
    for block, sizes in enumerate(BLOCKS, start=1):
        for number, size in enumerate(sizes, start=1):
            name = f"conv{block}_{number}"
            same: dict[str, Any] = {"kernel": (3, 3), "padding": (1, 1)}
            layers += [
                Conv2d(name=name, in_channels=channels, out_channels=size, **same),
                Relu(name=f"{name}_relu"),
            ]
            channels = size
        layers.append(MaxPool2d(name=f"pool{block}", kernel=(2, 2), stride=(2, 2)))
    return tuple(layers)
