"""LeNet in JAX without any library on top: lax convolutions, a plain SGD step."""

import jax
import numpy as np
from common import LEARNING_RATE, MIXED, data, serve
from jax import lax
from jax import numpy as jnp

ON_GPU = jax.default_backend() == "gpu"
if ON_GPU:
    jax.config.update("jax_default_matmul_precision", "highest")  # no TF32
rng = np.random.default_rng(0)


def he_normal(*shape):
    return jnp.array(rng.normal(size=shape) * np.sqrt(2 / np.prod(shape[:-1])), jnp.float32)


shapes = [(5, 5, 1, 20), (5, 5, 20, 50), (800, 500), (500, 10)]
params = [(he_normal(*shape), jnp.zeros(shape[-1])) for shape in shapes]


def convolution(x, w, b):
    return (
        lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        + b
    )


def max_pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def model(params, x):
    x = max_pool(convolution(x, *params[0]))
    x = max_pool(convolution(x, *params[1]))
    x = jax.nn.relu(x.reshape(len(x), -1) @ params[2][0] + params[2][1])
    return x @ params[3][0] + params[3][1]


def loss_function(params, x, y):
    if MIXED:
        params, x = jax.tree.map(lambda each: each.astype(jnp.bfloat16), (params, x))
    logits = model(params, x).astype(jnp.float32)
    log_p = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(log_p, y[:, None], axis=1).mean()


@jax.jit
def train(params, x, y):
    loss, gradients = jax.value_and_grad(loss_function)(params, x, y)
    return jax.tree.map(lambda p, g: p - LEARNING_RATE * g, params, gradients), loss


def step(x, y):
    global params
    params, _ = train(params, x, y)


if __name__ == "__main__":
    put = (lambda x, y: jax.device_put((x, y))) if ON_GPU else None
    serve(step, lambda: jax.block_until_ready(params), *data(channels_last=True), put=put)
