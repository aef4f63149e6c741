"""LeNet in OpenVINO: a graph made of its own operations."""

import numpy as np
import openvino as ov
from common import run, weights
from openvino import opset13 as ops

w1, b1, w2, b2, w3, b3, w4, b4 = weights().values()


def convolution(x, weight, bias):
    x = ops.convolution(x, weight, [1, 1], [0, 0], [0, 0], [1, 1])
    return ops.add(x, bias.reshape(1, -1, 1, 1))


def max_pool(x):
    return ops.max_pool(x, [2, 2], [1, 1], [0, 0], [0, 0], [2, 2]).output(0)


def dense(x, weight, bias):
    return ops.add(ops.matmul(x, weight, False, True), bias)


image = ops.parameter([1, 1, 28, 28], np.float32)
x = max_pool(convolution(image, w1, b1))
x = max_pool(convolution(x, w2, b2))
x = ops.relu(dense(ops.reshape(x, [1, 800], False), w3, b3))
model = ov.Model([dense(x, w4, b4)], [image])
settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
compiled = ov.compile_model(model, "CPU", settings)


def predict(image):
    return compiled(image)[0]


run(predict)
