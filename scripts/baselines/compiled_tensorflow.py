"""A TensorFlow model as a function for inference: frozen, or compiled by XLA."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2


def compiled(
    model: Callable[[Any], Any], images: np.ndarray, *, xla: bool = False
) -> Callable[[np.ndarray], np.ndarray]:
    """The call of the model with one of the images, from and to host memory."""
    form = tf.TensorSpec((1, *images.shape[1:]))
    run = tf.function(model, jit_compile=xla).get_concrete_function(form)
    if not xla:  # the frozen form has no XLA
        frozen = convert_variables_to_constants_v2(run)
        # In a function it is inlined; a call of the frozen function itself takes milliseconds more.
        run = tf.function(lambda image: frozen(image)[0]).get_concrete_function(form)
    return lambda image: run(tf.constant(image)).numpy()
