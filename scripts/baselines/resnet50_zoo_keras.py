"""keras.applications' ResNet-50 with its strides where ours has them.

Theirs (v1) has them in the first convolution of a block, which then does less work. Theirs also
adds a bias in each convolution, and pads "same".
"""

import re

from train_keras import keras, train

FIRST = re.compile(r"conv[345]_block1_([12])_conv")  # a bottleneck's first two, where size halves


def clone(layer):
    config = layer.get_config()
    if found := FIRST.fullmatch(layer.name):
        config["strides"] = {"1": (1, 1), "2": (2, 2)}[found[1]]
    return type(layer).from_config(config)


zoo = keras.applications.ResNet50(weights=None, classifier_activation=None)
train(keras.models.clone_model(zoo, clone_function=clone))
