"""Trains the models of the PyTorch scripts."""

import torch
from common import LEARNING_RATE, MIXED, VARIANT, data, serve
from torch import nn


def train(model: nn.Module) -> None:
    images, labels, order = data()
    images, labels = torch.from_numpy(images), torch.from_numpy(labels).long()
    memory = torch.contiguous_format if VARIANT == "eager" else torch.channels_last
    model, images = model.to(memory_format=memory), images.contiguous(memory_format=memory)
    run = torch.compile(model) if VARIANT == "compiled" else model
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    loss_function = nn.CrossEntropyLoss()

    def step(batch):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=MIXED):
            logits = run(images[batch])
        loss = loss_function(logits.float(), labels[batch])
        loss.backward()
        optimizer.step()

    serve(step, lambda: None, order)
