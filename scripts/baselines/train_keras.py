"""What the Keras scripts do with their models: a turn is one call of fit."""

import os

import numpy as np
from common import BATCH, LEARNING_RATE, VARIANT, data, serve_turns

BACKENDS = {"pytorch": "torch", "jax": "jax"}
# Keras takes its backend once and for all when it is imported.
os.environ["KERAS_BACKEND"] = BACKENDS.get(VARIANT, "tensorflow")
import keras  # noqa: E402


def train(model):
    images, labels, order = data(channels_last=True)
    model.compile(
        keras.optimizers.SGD(LEARNING_RATE),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )

    def turn(steps):
        chosen = np.resize(order, steps * BATCH)
        model.fit(images[chosen], labels[chosen], batch_size=BATCH, shuffle=False, verbose=0)

    serve_turns(turn)
