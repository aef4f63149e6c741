"""LeNet in Keras, as one would write it by hand."""

from common import MIXED
from train_keras import keras, train

layers = keras.layers
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

if MIXED:
    model.add(layers.Activation("linear", dtype="float32"))  # the loss is in float32

if __name__ == "__main__":
    train(model)
