"""ResNet-50 of paddle.vision, which has the strides of the suite."""

from paddle.vision.models import resnet50
from train_paddle import train

model = resnet50()

if __name__ == "__main__":
    train(model)
