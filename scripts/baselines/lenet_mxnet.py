"""LeNet in MXNet Gluon, as one would write it by hand."""

from mxnet.gluon import nn
from train_mxnet import train

model = nn.HybridSequential()
model.add(
    nn.Conv2D(20, 5),
    nn.MaxPool2D(2, 2),
    nn.Conv2D(50, 5),
    nn.MaxPool2D(2, 2),
    nn.Dense(500, activation="relu"),
    nn.Dense(10),
)

if __name__ == "__main__":
    train(model)
