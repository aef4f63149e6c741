"""ViT-Tiny in TensorFlow, as one would write it by hand: variables, a tape and tf.function."""

import tensorflow as tf
from common import PATCH, PATCHES, VIT_BLOCKS, VIT_EPSILON, VIT_FEATURES, VIT_HEADS
from train_tensorflow import train

variables = []


def variable(initial):
    variables.append(tf.Variable(initial))
    return variables[-1]


def dense(inputs, outputs):
    std = (2 / inputs) ** 0.5
    return variable(tf.random.normal((inputs, outputs), stddev=std)), variable(tf.zeros(outputs))


def scale():
    return variable(tf.ones(VIT_FEATURES)), variable(tf.zeros(VIT_FEATURES))


patches = dense(3 * PATCH * PATCH, VIT_FEATURES)
first = variable(tf.zeros((1, 1, VIT_FEATURES)))
positions = variable(tf.random.normal((PATCHES + 1, VIT_FEATURES), stddev=0.02))
blocks = [
    (
        scale(),
        dense(VIT_FEATURES, 3 * VIT_FEATURES),
        dense(VIT_FEATURES, VIT_FEATURES),
        scale(),
        dense(VIT_FEATURES, 4 * VIT_FEATURES),
        dense(4 * VIT_FEATURES, VIT_FEATURES),
    )
    for _ in range(VIT_BLOCKS)
]
last, classes = scale(), dense(VIT_FEATURES, 1000)


def norm(x, weights):
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, weights[1], weights[0], VIT_EPSILON)


def affine(x, weights):
    # One product over all positions: the gradient of x @ weight would be one for each sample.
    rows = tf.reshape(x, [-1, x.shape[-1]]) @ weights[0] + weights[1]
    return tf.reshape(rows, [-1, x.shape[1], rows.shape[-1]])


def attention(x, into, out):
    size = VIT_FEATURES // VIT_HEADS
    parts = tf.reshape(affine(x, into), [-1, PATCHES + 1, 3, VIT_HEADS, size])
    q, k, v = tf.unstack(tf.transpose(parts, [2, 0, 3, 1, 4]))
    mixed = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * size**-0.5) @ v
    mixed = tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [-1, PATCHES + 1, VIT_FEATURES])
    return affine(mixed, out)


def model(x):
    kernel = tf.reshape(patches[0], [PATCH, PATCH, 3, VIT_FEATURES])
    x = tf.reshape(tf.nn.conv2d(x, kernel, PATCH, "VALID"), [-1, PATCHES, VIT_FEATURES])
    x += patches[1]
    x = tf.concat([tf.tile(first, [tf.shape(x)[0], 1, 1]), x], 1) + positions
    for norm1, into, out, norm2, dense1, dense2 in blocks:
        x += attention(norm(x, norm1), into, out)
        x += affine(tf.nn.gelu(affine(norm(x, norm2), dense1)), dense2)
    return norm(x[:, 0], last) @ classes[0] + classes[1]


if __name__ == "__main__":
    train(model, variables)
