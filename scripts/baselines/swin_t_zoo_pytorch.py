"""Swin-T of torchvision, imported as swin_t.model.json."""

from torchvision_pytorch import train_published

train_published("swin_t")
