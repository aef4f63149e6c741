"""MobileNetV2 of torchvision, imported as mobilenet_v2.model.json."""

from torchvision_pytorch import train_published

train_published("mobilenet_v2")
