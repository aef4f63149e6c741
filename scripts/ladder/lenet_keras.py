"""LeNet in Keras on TensorFlow: a functional model and its calls for one batch."""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
from common import LEARNING_RATE, run, weights
from keras import layers

inputs = keras.Input((28, 28, 1))
x = layers.MaxPooling2D()(layers.Conv2D(20, 5)(inputs))
x = layers.MaxPooling2D()(layers.Conv2D(50, 5)(x))
x = layers.Dense(500, activation="relu")(layers.Flatten()(x))
model = keras.Model(inputs, layers.Dense(10)(x))
model.set_weights(list(weights(channels_last=True).values()))
predict = model.predict_on_batch

# Training
model.compile(
    keras.optimizers.SGD(LEARNING_RATE),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
)

run(predict, model.train_on_batch, channels_last=True)
