"""LeNet in PyTensor: expressions compiled by Numba.

PyTensor has no convolution of several channels and no pooling. Both select rows here: an image is a
matrix with a row for each value, and a column for each sample of the batch.
"""

import os

os.environ["PYTENSOR_FLAGS"] = "floatX=float32,cxx="

import numpy as np
import pytensor
import pytensor.tensor as pt
from common import BATCH, LEARNING_RATE, run, weights
from numpy.lib.stride_tricks import sliding_window_view

parameters = [pytensor.shared(values, shape=values.shape) for values in weights().values()]
w1, b1, w2, b2, w3, b3, w4, b4 = parameters


def windows(channels, size, kernel, stride):
    rows = np.arange(channels * size**2).reshape(channels, size, size)
    return sliding_window_view(rows, (kernel, kernel), (1, 2))[:, ::stride, ::stride]


def convolution(x, size, weight, bias):
    filters, channels, *_ = weight.type.shape
    rows = windows(channels, size, 5, 1).transpose(0, 3, 4, 1, 2).ravel()
    y = pt.dot(weight.flatten(2), x[rows].reshape((channels * 25, -1))) + bias[:, None]
    return y.reshape((filters * (size - 4) ** 2, -1))


def max_pool(x, channels, size):
    first, *others = windows(channels, size, 2, 2).reshape(-1, 4).T
    largest = x[first]
    for rows in others:  # of equal values, the gradient goes to the first; pt.maximum: to each
        largest = pt.switch(largest >= x[rows], largest, x[rows])
    return largest


images = pt.tensor("images", shape=(None, 1, 28, 28))
x = max_pool(convolution(images.reshape((-1, 784)).T, 28, w1, b1), 20, 24)
x = max_pool(convolution(x, 12, w2, b2), 50, 8)
x = pt.maximum(pt.dot(w3, x) + b3[:, None], 0)
logits = (pt.dot(w4, x) + b4[:, None]).T
predict = pytensor.function([images], logits, trust_input=True)

# Training
labels = pt.ivector("labels")
loss = -pt.special.log_softmax(logits, axis=1)[pt.arange(BATCH), labels].mean()
gradients = pt.grad(loss, parameters)
updates = [(p, p - LEARNING_RATE * g) for p, g in zip(parameters, gradients, strict=True)]
train_step = pytensor.function([images, labels], loss, updates=updates, trust_input=True)

run(predict, train_step)
