"""The published ResNet-50 of TensorFlow is that of keras.applications, trained by fit."""

import resnet50_zoo_keras  # noqa: F401
