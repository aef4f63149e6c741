"""Photographs by tf.data, which Keras's guides use with every backend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from ...data import Photographs
from ...protocol import Trial
from ..tensorflow import loader as tensorflow_loader


def batches(trial: Trial, photographs: Photographs) -> Iterator[tuple[Any, Any]]:
    if trial.variant == "tensorflow":
        return tensorflow_loader.batches(trial, photographs)
    tf.config.set_visible_devices([], "GPU")  # TensorFlow would take GPU memory from the backend
    read = tensorflow_loader.batches(trial, photographs)
    return ((inputs.numpy(), labels.numpy()) for inputs, labels in read)
