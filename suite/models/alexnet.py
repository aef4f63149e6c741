"""AlexNet (Krizhevsky 2014, "One weird trick": one tower, no local response normalization).

ImageNet form: torchvision's definition, 61,100,840 parameters. CIFAR-10 form: the definition of
bearpaw/pytorch-classification (models/cifar/alexnet.py) with one dense layer, 2,472,266 parameters.
"""

from typing import Any

from suite.models.architecture import Architecture
from suite.models.layers import Conv2d, Dense, Dropout, Flatten, Layer, MaxPool2d, Pair, Relu


def alexnet() -> Architecture:
    layers = (
        *_features(kernel=(11, 11), padding=(2, 2), pool=(3, 3)),  # 256 x 6 x 6
        Flatten(name="flatten"),
        Dropout(name="dropout1", rate=0.5),
        Dense(name="dense1", in_features=9216, out_features=4096),
        Relu(name="relu6"),
        Dropout(name="dropout2", rate=0.5),
        Dense(name="dense2", in_features=4096, out_features=4096),
        Relu(name="relu7"),
        Dense(name="classes", in_features=4096, out_features=1000),
    )
    return Architecture(name="alexnet", input_shape=(3, 224, 224), classes=1000, layers=layers)


def alexnet_cifar10() -> Architecture:
    layers = (
        *_features(kernel=(11, 11), padding=(5, 5), pool=(2, 2)),  # 256 x 1 x 1
        Flatten(name="flatten"),
        Dense(name="classes", in_features=256, out_features=10),
    )
    return Architecture(name="alexnet_cifar10", input_shape=(3, 32, 32), classes=10, layers=layers)


def _features(*, kernel: Pair, padding: Pair, pool: Pair) -> tuple[Layer, ...]:
    """The five convolutions. The forms differ in the first one and in the pools."""
    window: dict[str, Any] = {"kernel": pool, "stride": (2, 2)}
    same: dict[str, Any] = {"kernel": (3, 3), "padding": (1, 1)}
    first: dict[str, Any] = {"kernel": kernel, "stride": (4, 4), "padding": padding}
    return (
        Conv2d(name="conv1", in_channels=3, out_channels=64, **first),
        Relu(name="relu1"),
        MaxPool2d(name="pool1", **window),
        Conv2d(name="conv2", in_channels=64, out_channels=192, kernel=(5, 5), padding=(2, 2)),
        Relu(name="relu2"),
        MaxPool2d(name="pool2", **window),
        Conv2d(name="conv3", in_channels=192, out_channels=384, **same),
        Relu(name="relu3"),
        Conv2d(name="conv4", in_channels=384, out_channels=256, **same),
        Relu(name="relu4"),
        Conv2d(name="conv5", in_channels=256, out_channels=256, **same),
        Relu(name="relu5"),
        MaxPool2d(name="pool5", **window),
    )
