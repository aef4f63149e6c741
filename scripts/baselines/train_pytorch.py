"""Trains the models of the PyTorch scripts, on the GPU where there is one."""

import torch
from common import LEARNING_RATE, MIXED, VARIANT, data, serve
from torch import nn

ON_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if ON_GPU else "cpu")
torch.backends.cudnn.benchmark = True
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False


def train(model: nn.Module) -> None:
    images, labels, order = data()
    images, labels = torch.from_numpy(images), torch.from_numpy(labels).long()
    memory = torch.contiguous_format if VARIANT == "eager" else torch.channels_last
    model, images = model.to(DEVICE, memory_format=memory), images.contiguous(memory_format=memory)
    run = torch.compile(model) if VARIANT == "compiled" else model
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    loss_function = nn.CrossEntropyLoss()

    def put(x, y):
        return x.to(DEVICE).contiguous(memory_format=memory), y.to(DEVICE)

    def step(x, y):
        optimizer.zero_grad()
        with torch.autocast(DEVICE.type, torch.bfloat16, enabled=MIXED):
            logits = run(x)
        loss = loss_function(logits.float(), y)
        loss.backward()
        optimizer.step()

    if ON_GPU:
        serve(step, torch.cuda.synchronize, images, labels, order, put=put)
    else:
        serve(step, lambda: None, images, labels, order)
