"""torchvision's ResNet-50, which our definition follows.

torchvision is in no environment of ours: install it beside (pip install --no-deps --target FOLDER
torchvision==0.28.0 pillow) and run compare.py with PYTHONPATH=FOLDER.
"""

from contextlib import suppress

import torch
from train_pytorch import train

# torchvision's compiled part is for PyTorch with CUDA; without, it misses these when imported.
for missing in ("nms", "qnms"):
    with suppress(RuntimeError):
        torch.library.define(f"torchvision::{missing}", "(Tensor boxes) -> Tensor")
from torchvision.models import resnet50  # noqa: E402

train(resnet50())
