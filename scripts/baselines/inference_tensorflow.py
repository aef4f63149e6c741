"""Inference in TensorFlow, as one would write it by hand: a frozen function, or one of XLA."""

import tensorflow as tf
from common import VARIANT, model, queries
from compiled_tensorflow import compiled
from latency import serve_calls

images = queries(channels_last=True)
module = model("tensorflow")
for values in module.variables:
    if len(values.shape) == 1:  # no bias is zero and no scale is one, see common.py
        values.assign_add(tf.random.normal(values.shape, stddev=0.1))
serve_calls(compiled(module.model, images, xla=VARIANT == "xla"), images)
