"""LeNet in TensorFlow with gradients of micro-batches and averaged weights, written by hand."""

import tensorflow as tf
from common import EMA_DECAY, LEARNING_RATE, MICRO_BATCHES, VARIANT, data, serve
from lenet_tensorflow import model, variables

averages = [tf.Variable(each) for each in variables]


@tf.function(jit_compile=VARIANT == "xla")
def step(x, y):
    total = [tf.zeros_like(each) for each in variables]
    for part, labels in zip(tf.split(x, MICRO_BATCHES), tf.split(y, MICRO_BATCHES), strict=True):
        with tf.control_dependencies(total), tf.GradientTape() as tape:  # one after the other
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(part))
            loss = tf.reduce_mean(losses) / MICRO_BATCHES
        found = tape.gradient(loss, variables)
        total = [a + b for a, b in zip(total, found, strict=True)]
    for variable, average, gradient in zip(variables, averages, total, strict=True):
        variable.assign_sub(LEARNING_RATE * gradient)
        average.assign_add((1 - EMA_DECAY) * (variable - average))


if __name__ == "__main__":
    serve(
        lambda x, y: step(tf.constant(x), tf.constant(y)),
        tf.test.experimental.sync_devices,
        *data(channels_last=True),
    )
