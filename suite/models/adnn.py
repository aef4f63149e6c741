"""A small convolutional network on MNIST, after adnn-2023 (TensorFlow, PyTorch and JAX).

That document does not print its layers. This is the network of Flax's MNIST example, which the JAX
part of such comparisons follows. 824,458 parameters.
"""

from typing import Any

from suite.models.architecture import Architecture
from suite.models.layers import AvgPool2d, Conv2d, Dense, Flatten, Relu


def adnn_cnn() -> Architecture:
    same: dict[str, Any] = {"kernel": (3, 3), "padding": (1, 1)}
    half: dict[str, Any] = {"kernel": (2, 2), "stride": (2, 2)}
    return Architecture(
        name="adnn_cnn",
        input_shape=(1, 28, 28),
        classes=10,
        layers=(
            Conv2d(name="conv1", in_channels=1, out_channels=32, **same),
            Relu(name="relu1"),
            AvgPool2d(name="pool1", **half),  # 32 x 14 x 14
            Conv2d(name="conv2", in_channels=32, out_channels=64, **same),
            Relu(name="relu2"),
            AvgPool2d(name="pool2", **half),  # 64 x 7 x 7
            Flatten(name="flatten"),
            Dense(name="dense1", in_features=3136, out_features=256),
            Relu(name="relu3"),
            Dense(name="dense2", in_features=256, out_features=10),
        ),
    )
