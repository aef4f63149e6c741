"""torchvision's ResNet-50, which our definition follows.

torchvision is in no environment of ours: install it beside (pip install --no-deps --target FOLDER
torchvision==0.28.0 pillow) and run compare.py with PYTHONPATH=FOLDER.
"""

from contextlib import suppress

import torch
from common import LEARNING_RATE, VARIANT, data, serve
from torch import nn

# torchvision's compiled part is for PyTorch with CUDA; without, it misses these when imported.
for missing in ("nms", "qnms"):
    with suppress(RuntimeError):
        torch.library.define(f"torchvision::{missing}", "(Tensor boxes) -> Tensor")
from torchvision.models import resnet50  # noqa: E402

images, labels, order = data()
images, labels = torch.from_numpy(images), torch.from_numpy(labels).long()
memory = torch.contiguous_format if VARIANT == "eager" else torch.channels_last
model, images = resnet50().to(memory_format=memory), images.contiguous(memory_format=memory)
run = torch.compile(model) if VARIANT == "compiled" else model
optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
loss_function = nn.CrossEntropyLoss()


def step(batch):
    optimizer.zero_grad()
    loss = loss_function(run(images[batch]), labels[batch])
    loss.backward()
    optimizer.step()


serve(step, lambda: None, order)
