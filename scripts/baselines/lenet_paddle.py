"""LeNet in PaddlePaddle, as one would write it by hand."""

from paddle import nn
from train_paddle import train

model = nn.Sequential(
    nn.Conv2D(1, 20, 5),
    nn.MaxPool2D(2),
    nn.Conv2D(20, 50, 5),
    nn.MaxPool2D(2),
    nn.Flatten(),
    nn.Linear(800, 500),
    nn.ReLU(),
    nn.Linear(500, 10),
)
# Initial weights like the suite's: other weights change the duration of a step.
for parameter in model.parameters():
    if parameter.dim() > 1:
        nn.initializer.KaimingNormal()(parameter)
    else:
        nn.initializer.Constant(0.0)(parameter)

if __name__ == "__main__":
    train(model)
