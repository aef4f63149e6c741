"""LeNet in PyTensor, as one would write it by hand, with the batch as the last axis.

PyTensor has no convolution of several channels and no pooling. Both select rows of N values here:
every window is a few rows, and a convolution is one product of matrices.
"""

import os
import tempfile

import numpy as np
from common import BATCH, LEARNING_RATE, data, serve
from numpy.lib.stride_tricks import sliding_window_view

os.environ["PYTENSOR_FLAGS"] = f"floatX=float32,cxx=,base_compiledir={tempfile.mkdtemp()}"

import pytensor
import pytensor.tensor as pt
from threadpoolctl import threadpool_limits

threadpool_limits(int(os.environ["OMP_NUM_THREADS"]))
rng = np.random.default_rng(0)
parameters = []


def parameter(*shape):
    # Initial weights like the suite's: other weights change the duration of a step.
    std = np.sqrt(2 / np.prod(shape[1:])) if len(shape) > 1 else 0
    values = (std * rng.standard_normal(shape)).astype(np.float32)
    parameters.append(pytensor.shared(values, shape=shape))
    return parameters[-1]


def windows(channels, size, kernel, stride):
    """The rows in each window: (channels, positions, positions, kernel, kernel)."""
    rows = np.arange(channels * size**2).reshape(channels, size, size)
    return sliding_window_view(rows, (kernel, kernel), (1, 2))[:, ::stride, ::stride]


def convolution(pixels, channels, size, filters, kernel):
    rows = windows(channels, size, kernel, 1).transpose(0, 3, 4, 1, 2)
    weight, bias = parameter(filters, channels * kernel**2), parameter(filters)
    positions, batch = rows[0, 0, 0].size, pixels.type.shape[1]
    taken = pixels[rows.ravel()].reshape((channels * kernel**2, positions * batch))
    return (pt.dot(weight, taken) + bias[:, None]).reshape((filters * positions, batch))


def max_pool(pixels, channels, size):
    rows = windows(channels, size, 2, 2).reshape(-1, 4)
    largest = pixels[rows[:, 0]]
    for column in (1, 2, 3):
        largest = pt.maximum(largest, pixels[rows[:, column]])
    return largest


def dense(values, features, outputs):
    return pt.dot(parameter(outputs, features), values) + parameter(outputs)[:, None]


def logits(images):
    """The logits (N, 10) of images (N, 1, 28, 28), of which the compiler knows the number N."""
    values = images.reshape((images.type.shape[0], 784)).T
    values = max_pool(convolution(values, 1, 28, 20, 5), 20, 24)
    values = max_pool(convolution(values, 20, 12, 50, 5), 50, 8)
    values = dense(values, 800, 500)
    return dense(pt.switch(values > 0, values, 0), 500, 10).T


def train():
    images = pt.tensor("images", shape=(BATCH, 1, 28, 28), dtype="float32")
    labels = pt.tensor("labels", shape=(BATCH,), dtype="int32")
    losses = -pt.special.log_softmax(logits(images), axis=1)[np.arange(BATCH), labels]
    loss = losses.mean()
    gradients = pt.grad(loss, parameters)
    updates = [(p, p - LEARNING_RATE * g) for p, g in zip(parameters, gradients, strict=True)]
    step = pytensor.function([images, labels], loss, updates=updates, trust_input=True)
    serve(step, lambda: None, *data())


if __name__ == "__main__":
    train()
