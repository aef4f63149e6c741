"""The multi-layer perceptron of db-2016 (Keras over Theano and TensorFlow, tabular data).

16 inputs, two hidden layers of 30 with tanh and dropout. The document does not print the number of
classes; here it is that of the generated dataset. 1,750 parameters.
"""

from suite.models.architecture import Architecture
from suite.models.layers import Dense, Dropout, Tanh


def db_mlp() -> Architecture:
    return Architecture(
        name="db_mlp",
        input_shape=(16,),
        classes=10,
        layers=(
            Dense(name="dense1", in_features=16, out_features=30),
            Tanh(name="tanh1"),
            Dropout(name="dropout1", rate=0.001),
            Dense(name="dense2", in_features=30, out_features=30),
            Tanh(name="tanh2"),
            Dropout(name="dropout2", rate=0.01),
            Dense(name="classes", in_features=30, out_features=10),
        ),
    )
