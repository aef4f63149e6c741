"""LeNet in Theano, as one would write it by hand, with max pooling by slices.

Theano's own max pooling gives each of several equal values the whole gradient, which is another
function where an image has a plain background.
"""

import os
import tempfile
from pathlib import Path

import numpy as np
import scipy.linalg
from common import BATCH, LEARNING_RATE, data, serve

folder = Path(tempfile.mkdtemp())
blas = next((Path(scipy.__file__).parent.parent / "scipy.libs").glob("libopenblasp*.so"))
(folder / "libopenblas.so").symlink_to(blas)
flags = f"floatX=float32,base_compiledir={folder},blas.ldflags=-L{folder} -lopenblas"
os.environ["THEANO_FLAGS"] = flags

import theano  # noqa: E402
import theano.tensor as tt  # noqa: E402
from threadpoolctl import threadpool_limits  # noqa: E402

threadpool_limits(int(os.environ["OMP_NUM_THREADS"]))
rng = np.random.default_rng(0)
parameters = []


def parameter(*shape):
    # Initial weights like the suite's: other weights change the duration of a step.
    std = np.sqrt(2 / np.prod(shape[1:])) if len(shape) > 1 else 0
    parameters.append(theano.shared((std * rng.standard_normal(shape)).astype(np.float32)))
    return parameters[-1]


def convolution(images, channels, size, filters):
    weight, bias = parameter(filters, channels, 5, 5), parameter(filters)
    shapes = (BATCH, channels, size, size), (filters, channels, 5, 5)
    return tt.nnet.conv2d(images, weight, *shapes, filter_flip=False) + bias[:, None, None]


def max_pool(images):
    parts = [images[:, :, row::2, column::2] for row in (0, 1) for column in (0, 1)]
    largest = parts[0]
    for part in parts[1:]:
        largest = tt.maximum(largest, part)
    return largest


def dense(values, features, outputs):
    return tt.dot(values, parameter(outputs, features).T) + parameter(outputs)


images, labels = tt.tensor4("images"), tt.ivector("labels")
values = max_pool(convolution(images, 1, 28, 20))
values = max_pool(convolution(values, 20, 12, 50))
values = dense(values.flatten(2), 800, 500)
logits = dense(tt.switch(values > 0, values, 0), 500, 10)
loss = tt.nnet.categorical_crossentropy(tt.nnet.softmax(logits), labels).mean()
gradients = theano.grad(loss, parameters)
updates = [
    (p, p - np.float32(LEARNING_RATE) * g) for p, g in zip(parameters, gradients, strict=True)
]
step = theano.function([images, labels], loss, updates=updates)
step.trust_input = True
serve(step, lambda: None, *data())
