"""Inference in JAX, as one would write it by hand: compiled, with the weights as constants."""

import jax
import numpy as np
from common import model, queries
from latency import serve_calls

images = queries(channels_last=True)
module = model("jax")
run = jax.jit(lambda image: module.model(module.params, image)).lower(images[:1]).compile()

serve_calls(lambda image: np.asarray(run(image)), images)
