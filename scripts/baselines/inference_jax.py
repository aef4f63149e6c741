"""Inference in JAX, as one would write it by hand: the model compiled ahead of time."""

import jax
import numpy as np
from common import model, queries
from latency import serve_calls

images = queries(channels_last=True)
module = model("jax")
run = jax.jit(module.model).lower(module.params, images[:1]).compile()

serve_calls(lambda image: np.asarray(run(module.params, image)), images)
