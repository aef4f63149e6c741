"""Trains the models of the TensorFlow scripts, with a tape and tf.function."""

import tensorflow as tf
from common import LEARNING_RATE, MIXED, VARIANT, data, serve


def operand(x):
    """An operand of a product: in bf16_mixed rounded to bfloat16.

    The products stay in float32, because those of TensorFlow on a CPU would sum in bfloat16.
    """
    return tf.cast(tf.cast(x, tf.bfloat16), tf.float32) if MIXED else x


def train(model, variables):
    @tf.function(jit_compile=VARIANT == "xla")
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x)))
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(LEARNING_RATE * gradient)
        return loss

    serve(
        lambda x, y: step(tf.constant(x), tf.constant(y)),
        tf.test.experimental.sync_devices,
        *data(channels_last=True),
    )
