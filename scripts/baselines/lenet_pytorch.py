"""LeNet in PyTorch, as one would write it by hand."""

import torch
from common import LEARNING_RATE, VARIANT, data, serve
from torch import nn

images, labels, order = data()
images, labels = torch.from_numpy(images), torch.from_numpy(labels).long()

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
memory = torch.contiguous_format if VARIANT == "eager" else torch.channels_last
model, images = model.to(memory_format=memory), images.contiguous(memory_format=memory)
run = torch.compile(model) if VARIANT == "compiled" else model
optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
loss_function = nn.CrossEntropyLoss()


def step(batch):
    optimizer.zero_grad()
    loss = loss_function(run(images[batch]), labels[batch])
    loss.backward()
    optimizer.step()


serve(step, lambda: None, order)
