"""LeNet in TensorFlow, as one would write it by hand: variables, a tape and tf.function."""

import tensorflow as tf
from train_tensorflow import operand, train


def he_normal(*shape):
    fan_in = tf.reduce_prod(shape[:-1])
    return tf.Variable(tf.random.normal(shape) * tf.sqrt(2 / tf.cast(fan_in, tf.float32)))


w1, b1 = he_normal(5, 5, 1, 20), tf.Variable(tf.zeros(20))
w2, b2 = he_normal(5, 5, 20, 50), tf.Variable(tf.zeros(50))
w3, b3 = he_normal(800, 500), tf.Variable(tf.zeros(500))
w4, b4 = he_normal(500, 10), tf.Variable(tf.zeros(10))
variables = [w1, b1, w2, b2, w3, b3, w4, b4]


def model(x):
    x = tf.nn.conv2d(operand(x), operand(w1), 1, "VALID") + b1
    x = tf.nn.max_pool2d(x, 2, 2, "VALID")
    x = tf.nn.conv2d(operand(x), operand(w2), 1, "VALID") + b2
    x = tf.nn.max_pool2d(x, 2, 2, "VALID")
    x = tf.nn.relu(operand(tf.reshape(x, [-1, 800])) @ operand(w3) + b3)
    return operand(x) @ operand(w4) + b4


if __name__ == "__main__":
    train(model, variables)
