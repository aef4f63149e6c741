"""Trains a published model of torchvision, for the scripts named after the models.

The suite's environments do not contain torchvision. Install it in a folder (pip install --no-deps
--target FOLDER torchvision==0.28.0 pillow) and run compare.py with PYTHONPATH=FOLDER.
"""

from contextlib import suppress

import torch
from train_pytorch import train

# torchvision's compiled part is for PyTorch with CUDA; without CUDA these operators are missing.
for missing in ("nms", "qnms"):
    with suppress(RuntimeError):
        torch.library.define(f"torchvision::{missing}", "(Tensor boxes) -> Tensor")
from torchvision import models  # noqa: E402


def train_published(name: str) -> None:
    """Train the model, with random weights."""
    train(models.get_model(name, weights=None))
