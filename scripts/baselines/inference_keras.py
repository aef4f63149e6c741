"""Inference in Keras, as one would write it by hand: the model compiled by its backend."""

import keras
import numpy as np
from common import VARIANT, model, queries
from latency import serve_calls

images = queries(channels_last=True)
net = model("keras").model
for values in net.weights:  # weights as the suite's, see common.py
    if len(values.shape) > 1:
        values.assign(keras.initializers.HeNormal()(values.shape))
    else:  # of one sign, because a variance stays positive
        values.assign_add(abs(keras.random.normal(values.shape, stddev=0.1)))


def predict(image):
    return net(image, training=False)


if VARIANT == "jax":
    import jax

    run = jax.jit(predict).lower(images[:1]).compile()
    serve_calls(lambda image: np.asarray(run(image)), images)
elif VARIANT == "pytorch":
    import torch

    with torch.inference_mode():
        serve_calls(lambda image: predict(image).cpu().numpy(), images)
else:
    from compiled_tensorflow import compiled

    serve_calls(compiled(predict, images), images)
