"""TensorFlow's own ResNet-50 is that of keras.applications, trained by fit."""

import resnet50_zoo_keras  # noqa: F401
