"""A small GPT in TensorFlow, as one would write it by hand: variables, a tape and tf.function."""

import numpy as np
import tensorflow as tf
from common import (
    BETAS,
    BLOCKS,
    DECAY,
    EPSILON,
    FEATURES,
    HEADS,
    LEARNING_RATE,
    LENGTH,
    VARIANT,
    VOCABULARY,
    serve,
    text,
)

variables = []


def variable(initial):
    variables.append(tf.Variable(initial))
    return variables[-1]


def normal(*shape, std):
    return variable(tf.random.normal(shape, stddev=std))


def dense(inputs, outputs):
    return normal(inputs, outputs, std=(2 / inputs) ** 0.5), variable(tf.zeros(outputs))


def scale():
    return variable(tf.ones(FEATURES)), variable(tf.zeros(FEATURES))


tokens = normal(VOCABULARY, FEATURES, std=0.02)
positions = normal(LENGTH, FEATURES, std=0.02)
blocks = [
    (
        scale(),
        dense(FEATURES, 3 * FEATURES),
        dense(FEATURES, FEATURES),
        scale(),
        dense(FEATURES, 4 * FEATURES),
        dense(4 * FEATURES, FEATURES),
    )
    for _ in range(BLOCKS)
]
last = scale()
hidden_from = tf.constant(np.triu(np.full((LENGTH, LENGTH), -1e9, np.float32), 1))


def norm(x, weights):
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, weights[1], weights[0], 1e-5)


def affine(x, weights):
    # One product over all positions: the gradient of x @ weight would be one for each sample.
    rows = tf.reshape(x, [-1, x.shape[-1]]) @ weights[0] + weights[1]
    return tf.reshape(rows, [-1, x.shape[1], rows.shape[-1]])


def attention(x, into, out):
    parts = tf.reshape(affine(x, into), [-1, LENGTH, 3, HEADS, FEATURES // HEADS])
    q, k, v = tf.unstack(tf.transpose(parts, [2, 0, 3, 1, 4]))
    scores = tf.matmul(q, k, transpose_b=True) * (FEATURES // HEADS) ** -0.5
    mixed = tf.matmul(tf.nn.softmax(scores + hidden_from), v)
    return affine(tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [-1, LENGTH, FEATURES]), out)


def model(x):
    x = tf.gather(tokens, x) + positions
    for norm1, into, out, norm2, dense1, dense2 in blocks:
        x += attention(norm(x, norm1), into, out)
        x += affine(tf.nn.gelu(affine(norm(x, norm2), dense1)), dense2)
    rows = tf.reshape(norm(x, last), [-1, FEATURES])
    return tf.reshape(tf.matmul(rows, tokens, transpose_b=True), [-1, LENGTH, VOCABULARY])


slots = [(tf.Variable(tf.zeros_like(v)), tf.Variable(tf.zeros_like(v))) for v in variables]
count = tf.Variable(0.0)


def adamw(gradients):
    count.assign_add(1)
    corrections = [1 - beta**count for beta in BETAS]
    for v, (first, second), gradient in zip(variables, slots, gradients, strict=True):
        g = tf.convert_to_tensor(gradient)
        first.assign(BETAS[0] * first + (1 - BETAS[0]) * g)
        second.assign(BETAS[1] * second + (1 - BETAS[1]) * g * g)
        change = (first / corrections[0]) / (tf.sqrt(second / corrections[1]) + EPSILON)
        v.assign_sub(LEARNING_RATE * (change + DECAY * v))


@tf.function(jit_compile=VARIANT == "xla")
def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x)))
    adamw(tape.gradient(loss, variables))
    return loss


serve(lambda x, y: step(tf.constant(x), tf.constant(y)), tf.test.experimental.sync_devices, *text())
