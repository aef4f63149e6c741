"""A multi-layer perceptron for any table: two hidden layers of 100 with ReLU."""

from suite.models.architecture import Architecture
from suite.models.layers import Dense, Relu

HIDDEN = 100


def fitted(features: int, classes: int) -> Architecture:
    """The perceptron for so many features and classes; its name has both."""
    return Architecture(
        name=f"mlp_{features}_{classes}",
        input_shape=(features,),
        classes=classes,
        layers=(
            Dense(name="hidden1", in_features=features, out_features=HIDDEN),
            Relu(name="relu1"),
            Dense(name="hidden2", in_features=HIDDEN, out_features=HIDDEN),
            Relu(name="relu2"),
            Dense(name="classes", in_features=HIDDEN, out_features=classes),
        ),
    )
