"""Trains the models of the TensorFlow scripts, with a tape and tf.function."""

import tensorflow as tf
from common import LEARNING_RATE, VARIANT, data, serve


def train(model, variables):
    images, labels, order = data(channels_last=True)

    @tf.function(jit_compile=VARIANT == "xla")
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x)))
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(LEARNING_RATE * gradient)
        return loss

    serve(
        lambda batch: step(tf.constant(images[batch]), tf.constant(labels[batch])),
        tf.test.experimental.sync_devices,
        order,
    )
