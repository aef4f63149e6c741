"""LeNet in PyTorch with gradients of micro-batches and averaged weights, written by hand."""

import torch
from common import EMA_DECAY, LEARNING_RATE, MICRO_BATCHES, VARIANT, data, serve
from lenet_pytorch import model
from torch import nn


def main() -> None:
    images, labels, order = data()
    images, labels = torch.from_numpy(images), torch.from_numpy(labels).long()
    memory = torch.contiguous_format if VARIANT == "eager" else torch.channels_last
    images, net = images.contiguous(memory_format=memory), model.to(memory_format=memory)
    run = torch.compile(net) if VARIANT == "compiled" else net
    parameters = list(net.parameters())
    averages = [each.detach().clone() for each in parameters]
    optimizer = torch.optim.SGD(parameters, lr=LEARNING_RATE)
    loss_function = nn.CrossEntropyLoss()

    def step(x, y):
        optimizer.zero_grad()
        for part, targets in zip(x.chunk(MICRO_BATCHES), y.chunk(MICRO_BATCHES), strict=True):
            (loss_function(run(part), targets) / MICRO_BATCHES).backward()
        optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(averages, parameters, 1 - EMA_DECAY)

    serve(step, lambda: None, images, labels, order)


if __name__ == "__main__":
    main()
