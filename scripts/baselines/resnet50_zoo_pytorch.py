"""ResNet-50 of torchvision, which the suite's definition follows."""

from torchvision_pytorch import train_published

train_published("resnet50")
