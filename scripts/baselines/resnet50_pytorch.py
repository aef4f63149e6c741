"""ResNet-50 (v1.5) in PyTorch, as one would write it by hand."""

from common import STAGES
from torch import nn
from train_pytorch import train


def conv_norm(inputs, outputs, kernel=1, stride=1):
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs))


class Bottleneck(nn.Module):
    def __init__(self, inputs, size, stride):
        super().__init__()
        outputs = 4 * size
        self.main = nn.Sequential(
            conv_norm(inputs, size),
            nn.ReLU(inplace=True),
            conv_norm(size, size, 3, stride),
            nn.ReLU(inplace=True),
            conv_norm(size, outputs),
        )
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else conv_norm(inputs, outputs, 1, stride)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(self.main(x) + self.shortcut(x))


layers = [conv_norm(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
channels = 64
for size, count, first_stride in STAGES:
    for number in range(count):
        layers.append(Bottleneck(channels, size, first_stride if number == 0 else 1))
        channels = 4 * size
model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))

if __name__ == "__main__":
    train(model)
