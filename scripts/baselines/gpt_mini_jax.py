"""A small GPT in JAX and Optax, as one would write it by hand."""

import jax
import numpy as np
import optax
from common import (
    BETAS,
    BLOCKS,
    DECAY,
    EPSILON,
    FEATURES,
    HEADS,
    LEARNING_RATE,
    LENGTH,
    MIXED,
    VOCABULARY,
    serve,
    text,
)
from jax import numpy as jnp

rng = np.random.default_rng(0)
COMPUTE = jnp.bfloat16 if MIXED else jnp.float32


def normal(*shape, std):
    return jnp.array(rng.normal(size=shape) * std, jnp.float32)


def dense(inputs, outputs):
    return normal(inputs, outputs, std=np.sqrt(2 / inputs)), jnp.zeros(outputs)


def block():
    return {
        "norm1": (jnp.ones(FEATURES), jnp.zeros(FEATURES)),
        "input": dense(FEATURES, 3 * FEATURES),
        "output": dense(FEATURES, FEATURES),
        "norm2": (jnp.ones(FEATURES), jnp.zeros(FEATURES)),
        "dense1": dense(FEATURES, 4 * FEATURES),
        "dense2": dense(4 * FEATURES, FEATURES),
    }


params = {
    "tokens": normal(VOCABULARY, FEATURES, std=0.02),
    "positions": normal(LENGTH, FEATURES, std=0.02),
    "blocks": [block() for _ in range(BLOCKS)],
    "norm": (jnp.ones(FEATURES), jnp.zeros(FEATURES)),
}


def product(x, weights):
    w, b = weights
    return x @ w.astype(COMPUTE) + b.astype(COMPUTE)


def norm(x, weights):
    return jax.nn.standardize(x.astype(jnp.float32), epsilon=1e-5).astype(COMPUTE) * weights[
        0
    ].astype(COMPUTE) + weights[1].astype(COMPUTE)


def attention(x, p):
    parts = product(x, p["input"]).reshape(*x.shape[:2], 3, HEADS, -1)
    mixed = jax.nn.dot_product_attention(*(parts[:, :, n] for n in range(3)), is_causal=True)
    return product(mixed.reshape(x.shape), p["output"])


def loss_function(params, x, y):
    x = (params["tokens"][x] + params["positions"]).astype(COMPUTE)
    for p in params["blocks"]:
        x = x + attention(norm(x, p["norm1"]), p)
        hidden = jax.nn.gelu(product(norm(x, p["norm2"]), p["dense1"]), approximate=False)
        x = x + product(hidden, p["dense2"])
    logits = norm(x, params["norm"]) @ params["tokens"].T.astype(COMPUTE)
    losses = optax.softmax_cross_entropy_with_integer_labels(logits.astype(jnp.float32), y)
    return losses.mean()


optimizer = optax.adamw(LEARNING_RATE, *BETAS, eps=EPSILON, weight_decay=DECAY)
state = optimizer.init(params)


@jax.jit
def train(params, state, x, y):
    loss, gradients = jax.value_and_grad(loss_function)(params, x, y)
    updates, state = optimizer.update(gradients, state, params)
    return optax.apply_updates(params, updates), state, loss


def step(x, y):
    global params, state
    params, state, _ = train(params, state, x, y)


serve(step, lambda: jax.block_until_ready(params), *text())
