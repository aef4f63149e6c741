"""ResNet-50 of keras.applications, with the strides moved to where the suite has them.

In the original (v1) they are in the first convolution of a block, which then does less work. It
also adds a bias in each convolution, and pads "same".
"""

import re

from train_keras import keras, train

# The first two convolutions of a bottleneck that halves the size.
FIRST = re.compile(r"conv[345]_block1_([12])_conv")


def clone(layer):
    config = layer.get_config()
    if found := FIRST.fullmatch(layer.name):
        config["strides"] = {"1": (1, 1), "2": (2, 2)}[found[1]]
    return type(layer).from_config(config)


zoo = keras.applications.ResNet50(weights=None, classifier_activation=None)
model = keras.models.clone_model(zoo, clone_function=clone)

if __name__ == "__main__":
    train(model)
