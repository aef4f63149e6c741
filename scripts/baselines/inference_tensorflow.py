"""Inference in TensorFlow, as one would write it by hand: a frozen function, or one of XLA."""

import tensorflow as tf
from common import VARIANT, model, queries
from latency import serve_calls
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

images = queries(channels_last=True)
traced = tf.function(model("tensorflow").model, jit_compile=VARIANT == "xla")
form = tf.TensorSpec((1, *images.shape[1:]))
run = traced.get_concrete_function(form)
if VARIANT != "xla":  # the frozen form has no XLA
    frozen = convert_variables_to_constants_v2(run)
    # In a function it is inlined; a call of the frozen function itself takes milliseconds more.
    run = tf.function(lambda image: frozen(image)[0]).get_concrete_function(form)

serve_calls(lambda image: run(tf.constant(image)).numpy(), images)
