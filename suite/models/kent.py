"""The three networks of kent-2023 (Keras and Flux on MNIST), with ReLU after each hidden layer."""

from itertools import pairwise
from typing import Any

from suite.models.architecture import Architecture
from suite.models.layers import Conv2d, Dense, Flatten, Layer, MaxPool2d, Relu


def kent_small() -> Architecture:
    """101,770 parameters."""
    return _on_mnist("kent_small", (Flatten(name="flatten"),), (784, 128))


def kent_medium() -> Architecture:
    """220,234 parameters."""
    features = (
        *_conv("1", 1, 32),  # 32 x 14 x 14
        *_conv("2", 32, 64),  # 64 x 7 x 7
        Flatten(name="flatten"),
    )
    return _on_mnist("kent_medium", features, (3136, 64))


def kent_big() -> Architecture:
    """1,683,722 parameters."""
    features = (
        *_conv("1", 1, 64),  # 64 x 14 x 14
        *_conv("2", 64, 128),  # 128 x 7 x 7
        *_conv("3", 128, 256),  # 256 x 3 x 3
        Flatten(name="flatten"),
    )
    return _on_mnist("kent_big", features, (2304, 512, 256))


def _conv(number: str, inputs: int, outputs: int) -> tuple[Layer, ...]:
    sizes: dict[str, Any] = {"in_channels": inputs, "out_channels": outputs}
    return (
        Conv2d(name=f"conv{number}", **sizes, kernel=(3, 3), padding=(1, 1)),
        Relu(name=f"conv{number}_relu"),
        MaxPool2d(name=f"pool{number}", kernel=(2, 2), stride=(2, 2)),
    )


def _on_mnist(name: str, features: tuple[Layer, ...], sizes: tuple[int, ...]) -> Architecture:
    hidden: list[Layer] = []
    for number, (before, after) in enumerate(pairwise(sizes), start=1):
        hidden += [
            Dense(name=f"dense{number}", in_features=before, out_features=after),
            Relu(name=f"dense{number}_relu"),
        ]
    last = Dense(name="classes", in_features=sizes[-1], out_features=10)
    return Architecture(
        name=name, input_shape=(1, 28, 28), classes=10, layers=(*features, *hidden, last)
    )
