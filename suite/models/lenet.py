"""The LeNet of Caffe's MNIST example, which upv-2018 ran in five frameworks.

Its only activation is the ReLU between the dense layers. 431,080 parameters.
"""

from suite.models.architecture import Architecture
from suite.models.layers import Conv2d, Dense, Flatten, MaxPool2d, Relu


def lenet() -> Architecture:
    return Architecture(
        name="lenet",
        input_shape=(1, 28, 28),
        classes=10,
        layers=(
            Conv2d(name="conv1", in_channels=1, out_channels=20, kernel=(5, 5)),  # 20 x 24 x 24
            MaxPool2d(name="pool1", kernel=(2, 2), stride=(2, 2)),  # 20 x 12 x 12
            Conv2d(name="conv2", in_channels=20, out_channels=50, kernel=(5, 5)),  # 50 x 8 x 8
            MaxPool2d(name="pool2", kernel=(2, 2), stride=(2, 2)),  # 50 x 4 x 4
            Flatten(name="flatten"),
            Dense(name="dense1", in_features=800, out_features=500),
            Relu(name="relu1"),
            Dense(name="dense2", in_features=500, out_features=10),
        ),
    )
