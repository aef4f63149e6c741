"""EfficientNet-B0 of torchvision, imported as efficientnet_b0.model.json."""

from torchvision_pytorch import train_published

train_published("efficientnet_b0")
