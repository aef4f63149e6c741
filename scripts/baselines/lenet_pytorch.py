"""LeNet in PyTorch, as one would write it by hand."""

from torch import nn
from train_pytorch import train

model = nn.Sequential(
    nn.Conv2d(1, 20, 5),
    nn.MaxPool2d(2),
    nn.Conv2d(20, 50, 5),
    nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Linear(800, 500),
    nn.ReLU(),
    nn.Linear(500, 10),
)

train(model)
