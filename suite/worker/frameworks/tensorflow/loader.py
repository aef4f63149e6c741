"""Photographs by tf.data, as in TensorFlow's own ResNet: only the cropped part is decoded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from ...data import AREA, ATTEMPTS, RATIO, Photographs
from ...protocol import Trial

WHOLE = [[[0.0, 0.0, 1.0, 1.0]]]


def batches(trial: Trial, photographs: Photographs) -> Iterator[tuple[Any, Any]]:
    tf.random.set_seed(trial.seed)
    files = [str(file) for file in photographs.files]
    mean, std = (tf.constant(trial.normalize[name]) * 255 for name in ("mean", "std"))
    size = (photographs.size, photographs.size)

    def read(file: Any, label: Any) -> tuple[Any, Any]:
        image = tf.image.resize(_random_part(tf.io.read_file(file)), size)
        image = tf.image.random_flip_left_right(image)
        return (image - mean) / std, label

    samples = tf.data.Dataset.from_tensor_slices((files, photographs.labels))
    samples = samples.shuffle(len(files), reshuffle_each_iteration=True).repeat()
    samples = samples.map(read, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False)
    samples = samples.batch(trial.batch_size, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    options = tf.data.Options()
    options.threading.private_threadpool_size = len(trial.cpus)
    return iter(samples.with_options(options))


def _random_part(content: Any) -> Any:
    """A random part, uint8 (height, width, 3). One of ImageNet's .JPEG files is a PNG."""
    return tf.cond(
        tf.io.is_jpeg(content),
        lambda: tf.image.decode_and_crop_jpeg(
            content, _window(tf.image.extract_jpeg_shape(content)), channels=3
        ),
        lambda: _cut(tf.image.decode_png(content, channels=3)),
    )


def _cut(image: Any) -> Any:
    top, left, height, width = tf.unstack(_window(tf.shape(image)))
    return tf.image.crop_to_bounding_box(image, top, left, height, width)


def _window(shape: Any) -> Any:
    """The top, left, height and width of a random part of an image of this shape, int32."""
    begin, extent, _ = tf.image.sample_distorted_bounding_box(
        shape,
        WHOLE,
        min_object_covered=0.0,
        aspect_ratio_range=RATIO,
        area_range=AREA,
        max_attempts=ATTEMPTS,
    )
    return tf.stack([begin[0], begin[1], extent[0], extent[1]])
