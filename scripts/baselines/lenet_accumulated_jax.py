"""LeNet in JAX with gradients of micro-batches and averaged weights, written by hand."""

import jax
from common import EMA_DECAY, LEARNING_RATE, MICRO_BATCHES, data, serve
from jax import numpy as jnp
from lenet_jax import loss_function, params

averages = jax.tree.map(jnp.copy, params)


@jax.jit
def train(params, averages, x, y):
    def loss(params):
        parts = zip(jnp.split(x, MICRO_BATCHES), jnp.split(y, MICRO_BATCHES), strict=True)
        return sum(loss_function(params, *part) for part in parts) / MICRO_BATCHES

    gradients = jax.grad(loss)(params)
    params = jax.tree.map(lambda p, g: p - LEARNING_RATE * g, params, gradients)
    averages = jax.tree.map(lambda a, p: a + (1 - EMA_DECAY) * (p - a), averages, params)
    return params, averages


def step(x, y):
    global params, averages
    params, averages = train(params, averages, x, y)


if __name__ == "__main__":
    serve(step, lambda: jax.block_until_ready(averages), *data(channels_last=True))
