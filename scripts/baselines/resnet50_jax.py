"""ResNet-50 (v1.5) in JAX without any library on top: lax convolutions, a plain SGD step."""

from itertools import count

import jax
import numpy as np
from common import INFERENCE, LEARNING_RATE, MIXED, STAGES, data, serve
from jax import lax
from jax import numpy as jnp

ON_GPU = jax.default_backend() == "gpu"
if ON_GPU:
    jax.config.update("jax_default_matmul_precision", "highest")  # no TF32
TYPE = jnp.bfloat16 if MIXED else jnp.float32
rng = np.random.default_rng(0)
params, moments = {}, {}


def add_conv_norm(name, inputs, outputs, kernel=1):
    shape = (kernel, kernel, inputs, outputs)
    weight = rng.normal(size=shape) * np.sqrt(2 / np.prod(shape[:-1]))
    params[name] = {
        "weight": jnp.array(weight, jnp.float32),
        "scale": jnp.ones(outputs),
        "bias": jnp.zeros(outputs),
    }
    moments[name] = jnp.zeros(outputs), jnp.ones(outputs)


add_conv_norm("start", 3, 64, 7)
blocks, channels = [], 64
for size, repeats, first_stride in STAGES:
    for number, block in zip(range(repeats), count(len(blocks)), strict=False):
        stride = first_stride if number == 0 else 1
        add_conv_norm(f"{block} a", channels, size)
        add_conv_norm(f"{block} b", size, size, 3)
        add_conv_norm(f"{block} c", size, 4 * size)
        if channels != 4 * size:
            add_conv_norm(f"{block} shortcut", channels, 4 * size)
        blocks.append((block, stride, channels != 4 * size))
        channels = 4 * size
params["classes"] = {
    "weight": jnp.array(rng.normal(size=(channels, 1000)) * 0.01, jnp.float32),
    "bias": jnp.zeros(1000),
}

if INFERENCE:
    for name, (mean, variance) in moments.items():
        own = params[name]
        factor = own["scale"] / jnp.sqrt(variance + 1e-5)
        folded = {"weight": own["weight"] * factor, "bias": own["bias"] - mean * factor}
        params[name] = folded


def conv_norm(params, found, name, x, stride=1):
    own = params[name]
    pad = own["weight"].shape[0] // 2
    x = lax.conv_general_dilated(
        x.astype(TYPE),
        own["weight"].astype(TYPE),
        (stride, stride),
        [(pad, pad), (pad, pad)],
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    if INFERENCE:  # the batch norm is folded into the weight
        return x + own["bias"]
    wide = x.astype(jnp.float32)
    mean = wide.mean((0, 1, 2))
    variance = (wide * wide).mean((0, 1, 2)) - mean * mean
    found[name] = mean, variance
    factor = own["scale"] * lax.rsqrt(variance + 1e-5)
    return (wide * factor + (own["bias"] - mean * factor)).astype(TYPE)


def model(params, x, found=None):
    x = jax.nn.relu(conv_norm(params, found, "start", x, 2))
    x = lax.reduce_window(
        x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), [(0, 0), (1, 1), (1, 1), (0, 0)]
    )
    for block, stride, projected in blocks:
        main = jax.nn.relu(conv_norm(params, found, f"{block} a", x))
        main = jax.nn.relu(conv_norm(params, found, f"{block} b", main, stride))
        main = conv_norm(params, found, f"{block} c", main)
        shortcut = conv_norm(params, found, f"{block} shortcut", x, stride) if projected else x
        x = jax.nn.relu(main + shortcut)
    classes = jax.tree.map(lambda each: each.astype(TYPE), params["classes"])
    return (x.mean((1, 2)) @ classes["weight"] + classes["bias"]).astype(jnp.float32)


def loss_function(params, x, y):
    found = {}
    logits = model(params, x, found)
    log_p = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(log_p, y[:, None], axis=1).mean(), found


@jax.jit
def train(params, moments, x, y):
    (loss, found), gradients = jax.value_and_grad(loss_function, has_aux=True)(params, x, y)
    moments = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, moments, found)
    return jax.tree.map(lambda p, g: p - LEARNING_RATE * g, params, gradients), moments, loss


def step(x, y):
    global params, moments
    params, moments, _ = train(params, moments, x, y)


if __name__ == "__main__":
    put = (lambda x, y: jax.device_put((x, y))) if ON_GPU else None
    serve(step, lambda: jax.block_until_ready(params), *data(channels_last=True), put=put)
