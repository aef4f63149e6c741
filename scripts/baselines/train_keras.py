"""Trains the models of the Keras scripts: a slice is one call of fit."""

import os

import numpy as np
from common import BATCH, LEARNING_RATE, MIXED, VARIANT, data, serve_slices

BACKENDS = {"pytorch": "torch", "jax": "jax"}
# Keras reads its backend when it is imported.
os.environ["KERAS_BACKEND"] = BACKENDS.get(VARIANT, "tensorflow")
import keras  # noqa: E402

if MIXED:
    keras.config.set_dtype_policy("mixed_bfloat16")


def train(model):
    images, labels, order = data(channels_last=True)
    model.compile(
        keras.optimizers.SGD(LEARNING_RATE),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )

    def run_slice(steps):
        chosen = np.resize(order, steps * BATCH)
        model.fit(images[chosen], labels[chosen], batch_size=BATCH, shuffle=False, verbose=0)

    serve_slices(run_slice)
