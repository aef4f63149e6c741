"""ResNet-50 (v1.5) in TensorFlow, as one would write it by hand: variables, a tape, tf.function."""

import tensorflow as tf
from common import INFERENCE, STAGES
from train_tensorflow import train

variables = []


class ConvNorm:
    def __init__(self, inputs, outputs, kernel=1, stride=1):
        shape, pad = (kernel, kernel, inputs, outputs), kernel // 2
        fan_in = kernel * kernel * inputs
        self.weight = tf.Variable(tf.random.normal(shape) * (2 / fan_in) ** 0.5)
        self.scale, self.bias = tf.Variable(tf.ones(outputs)), tf.Variable(tf.zeros(outputs))
        self.mean = tf.Variable(tf.zeros(outputs), trainable=False)
        self.variance = tf.Variable(tf.ones(outputs), trainable=False)
        self.stride, self.pads = stride, [[0, 0], [pad, pad], [pad, pad], [0, 0]]
        variables.extend((self.weight, self.scale, self.bias))

    def __call__(self, x):
        if self.stride == 1:
            x = tf.nn.conv2d(x, self.weight, 1, "SAME")
        else:  # SAME would pad unevenly, and paddings in numbers are slow on a CPU
            x = tf.nn.conv2d(tf.pad(x, self.pads), self.weight, self.stride, "VALID")
        if INFERENCE:
            return tf.compat.v1.nn.fused_batch_norm(
                x, self.scale, self.bias, self.mean, self.variance, 1e-5, is_training=False
            )[0]
        x, mean, variance = tf.compat.v1.nn.fused_batch_norm(
            x, self.scale, self.bias, epsilon=1e-5, is_training=True
        )
        self.mean.assign_add(0.1 * (mean - self.mean))
        self.variance.assign_add(0.1 * (variance - self.variance))
        return x


class Bottleneck:
    def __init__(self, inputs, size, stride):
        self.a, self.b = ConvNorm(inputs, size), ConvNorm(size, size, 3, stride)
        self.c = ConvNorm(size, 4 * size)
        same = inputs == 4 * size and stride == 1
        self.shortcut = None if same else ConvNorm(inputs, 4 * size, 1, stride)

    def __call__(self, x):
        main = self.c(tf.nn.relu(self.b(tf.nn.relu(self.a(x)))))
        return tf.nn.relu(main + (self.shortcut(x) if self.shortcut else x))


start, blocks, channels = ConvNorm(3, 64, 7, 2), [], 64
for size, count, first_stride in STAGES:
    for number in range(count):
        blocks.append(Bottleneck(channels, size, first_stride if number == 0 else 1))
        channels = 4 * size
weight = tf.Variable(tf.random.normal((channels, 1000)) * 0.01)
bias = tf.Variable(tf.zeros(1000))
variables += [weight, bias]


def model(x):
    x = tf.nn.relu(start(x))
    # After a ReLU zeros are as good as any padding, and a pool that pads by itself is slower.
    x = tf.nn.max_pool2d(tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]]), 3, 2, "VALID")
    for block in blocks:
        x = block(x)
    return tf.reduce_mean(x, (1, 2)) @ weight + bias


if __name__ == "__main__":
    train(model, variables)
