"""ViT-Tiny in JAX without any library on top, a plain SGD step."""

import jax
import numpy as np
from common import (
    LEARNING_RATE,
    PATCH,
    PATCHES,
    VIT_BLOCKS,
    VIT_EPSILON,
    VIT_FEATURES,
    VIT_HEADS,
    data,
    serve,
)
from jax import lax
from jax import numpy as jnp

rng = np.random.default_rng(0)


def normal(*shape, std):
    return jnp.array(rng.normal(size=shape) * std, jnp.float32)


def dense(inputs, outputs):
    return normal(inputs, outputs, std=(2 / inputs) ** 0.5), jnp.zeros(outputs)


def scale():
    return jnp.ones(VIT_FEATURES), jnp.zeros(VIT_FEATURES)


params = {
    "patches": (normal(PATCH, PATCH, 3, VIT_FEATURES, std=0.05), jnp.zeros(VIT_FEATURES)),
    "first": jnp.zeros((1, 1, VIT_FEATURES)),
    "positions": normal(PATCHES + 1, VIT_FEATURES, std=0.02),
    "blocks": [
        (
            scale(),
            dense(VIT_FEATURES, 3 * VIT_FEATURES),
            dense(VIT_FEATURES, VIT_FEATURES),
            scale(),
            dense(VIT_FEATURES, 4 * VIT_FEATURES),
            dense(4 * VIT_FEATURES, VIT_FEATURES),
        )
        for _ in range(VIT_BLOCKS)
    ],
    "last": scale(),
    "classes": dense(VIT_FEATURES, 1000),
}


def norm(x, weights):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + VIT_EPSILON) * weights[0] + weights[1]


def attention(x, into, out):
    parts = jnp.split(x @ into[0] + into[1], 3, axis=2)
    y = jax.nn.dot_product_attention(*(each.reshape(*x.shape[:2], VIT_HEADS, -1) for each in parts))
    return y.reshape(x.shape) @ out[0] + out[1]


def model(params, x):
    kernel, bias = params["patches"]
    dimensions = ("NHWC", "HWIO", "NHWC")
    x = lax.conv_general_dilated(x, kernel, (PATCH, PATCH), "VALID", dimension_numbers=dimensions)
    x = x.reshape(len(x), PATCHES, VIT_FEATURES) + bias
    first = jnp.broadcast_to(params["first"], (len(x), 1, VIT_FEATURES))
    x = jnp.concatenate([first, x], 1) + params["positions"]
    for norm1, into, out, norm2, dense1, dense2 in params["blocks"]:
        x = x + attention(norm(x, norm1), into, out)
        hidden = jax.nn.gelu(norm(x, norm2) @ dense1[0] + dense1[1], approximate=False)
        x = x + hidden @ dense2[0] + dense2[1]
    return norm(x[:, 0], params["last"]) @ params["classes"][0] + params["classes"][1]


@jax.jit
def train(params, x, y):
    def loss_function(params):
        log_p = jax.nn.log_softmax(model(params, x))
        return -jnp.take_along_axis(log_p, y[:, None], axis=1).mean()

    loss, gradients = jax.value_and_grad(loss_function)(params)
    return jax.tree.map(lambda p, g: p - LEARNING_RATE * g, params, gradients), loss


def step(x, y):
    global params
    params, _ = train(params, x, y)


if __name__ == "__main__":
    serve(step, lambda: jax.block_until_ready(params), *data(channels_last=True))
