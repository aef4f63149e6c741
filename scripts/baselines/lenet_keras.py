"""LeNet in Keras, as one would write it by hand: a turn is one call of fit."""

import os

import numpy as np
from common import BATCH, LEARNING_RATE, VARIANT, data, serve_turns

os.environ["KERAS_BACKEND"] = VARIANT.replace("pytorch", "torch")
import keras
from keras import layers

images, labels, order = data(channels_last=True)

model = keras.Sequential(
    [
        keras.Input((28, 28, 1)),
        layers.Conv2D(20, 5),
        layers.MaxPooling2D(),
        layers.Conv2D(50, 5),
        layers.MaxPooling2D(),
        layers.Flatten(),
        layers.Dense(500, activation="relu"),
        layers.Dense(10),
    ]
)
model.compile(
    keras.optimizers.SGD(LEARNING_RATE),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
)


def turn(steps):
    chosen = np.resize(order, steps * BATCH)
    model.fit(images[chosen], labels[chosen], batch_size=BATCH, shuffle=False, verbose=0)


serve_turns(turn)
