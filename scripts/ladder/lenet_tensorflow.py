"""LeNet in TensorFlow: variables, operations of tf.nn, a tape and tf.function."""

import tensorflow as tf
from common import LEARNING_RATE, run, weights

variables = [tf.Variable(values) for values in weights(channels_last=True).values()]


@tf.function
def model(x):
    w1, b1, w2, b2, w3, b3, w4, b4 = variables
    x = tf.nn.max_pool2d(tf.nn.conv2d(x, w1, 1, "VALID") + b1, 2, 2, "VALID")
    x = tf.nn.max_pool2d(tf.nn.conv2d(x, w2, 1, "VALID") + b2, 2, 2, "VALID")
    x = tf.nn.relu(tf.reshape(x, [-1, 800]) @ w3 + b3)
    return x @ w4 + b4


def predict(image):
    return model(tf.constant(image)).numpy()


# Training
@tf.function
def update(images, labels):
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(images))
        loss = tf.reduce_mean(losses)
    for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
        variable.assign_sub(LEARNING_RATE * gradient)
    return loss


def train_step(images, labels):
    return update(tf.constant(images), tf.constant(labels))


run(predict, train_step, channels_last=True)
