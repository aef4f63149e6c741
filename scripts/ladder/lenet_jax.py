"""LeNet in JAX: a module of Flax NNX, jitted, and SGD of Optax."""

import numpy as np
import optax
from common import LEARNING_RATE, run, weights
from flax import nnx


class LeNet(nnx.Module):
    def __init__(self, rngs):
        self.conv1 = nnx.Conv(1, 20, (5, 5), padding="VALID", rngs=rngs)
        self.conv2 = nnx.Conv(20, 50, (5, 5), padding="VALID", rngs=rngs)
        self.dense1 = nnx.Linear(800, 500, rngs=rngs)
        self.dense2 = nnx.Linear(500, 10, rngs=rngs)

    def __call__(self, x):
        x = nnx.max_pool(self.conv1(x), (2, 2), (2, 2))
        x = nnx.max_pool(self.conv2(x), (2, 2), (2, 2))
        x = nnx.relu(self.dense1(x.reshape(len(x), -1)))
        return self.dense2(x)


model = LeNet(nnx.Rngs(0))
for name, values in weights(channels_last=True).items():
    layer, role = name.split(".")
    getattr(getattr(model, layer), role.replace("weight", "kernel"))[...] = values

forward = nnx.cached_partial(nnx.jit(lambda model, x: model(x)), model)


def predict(image):
    return np.asarray(forward(image))


# Training
def update(model, optimizer, images, labels):
    def loss_function(model):
        return optax.softmax_cross_entropy_with_integer_labels(model(images), labels).mean()

    loss, gradients = nnx.value_and_grad(loss_function)(model)
    optimizer.update(model, gradients)
    return loss


optimizer = nnx.Optimizer(model, optax.sgd(LEARNING_RATE), wrt=nnx.Param)
train_step = nnx.cached_partial(nnx.jit(update), model, optimizer)

run(predict, train_step, channels_last=True)
