"""LeNet in PyTorch: a module, run eagerly."""

import torch
from common import LEARNING_RATE, run, weights
from torch import nn
from torch.nn import functional


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 20, 5)
        self.conv2 = nn.Conv2d(20, 50, 5)
        self.dense1 = nn.Linear(800, 500)
        self.dense2 = nn.Linear(500, 10)

    def forward(self, x):
        x = functional.max_pool2d(self.conv1(x), 2)
        x = functional.max_pool2d(self.conv2(x), 2)
        x = functional.relu(self.dense1(x.flatten(1)))
        return self.dense2(x)


model = LeNet()
model.load_state_dict({name: torch.from_numpy(values) for name, values in weights().items()})


@torch.inference_mode()
def predict(image):
    return model(torch.from_numpy(image)).numpy()


# Training
optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)


def train_step(images, labels):
    optimizer.zero_grad()
    logits = model(torch.from_numpy(images))
    loss = functional.cross_entropy(logits, torch.from_numpy(labels).long())
    loss.backward()
    optimizer.step()
    return loss.detach()


run(predict, train_step)
