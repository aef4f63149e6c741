"""An LSTM classifier that reads an MNIST digit row by row, as in Keras's guide to RNNs.

81,674 parameters.
"""

from suite.models.architecture import Architecture
from suite.models.layers import Dense
from suite.models.sequences import Lstm, Rows


def lstm() -> Architecture:
    return Architecture(
        name="lstm",
        input_shape=(1, 28, 28),
        classes=10,
        layers=(
            Rows(name="rows"),  # 28 rows of 28
            Lstm(name="lstm", in_features=28, hidden=128),
            Dense(name="classes", in_features=128, out_features=10),
        ),
    )
