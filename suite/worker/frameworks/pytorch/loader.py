"""Photographs by PyTorch's DataLoader, as in its ImageNet example, one process for each core.

The transforms equal torchvision's RandomResizedCrop, RandomHorizontalFlip, ToTensor and Normalize.
They use Pillow, as torchvision does. torchvision itself is not used: the package index of the lock
has no build of it for the CPU version of PyTorch.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from ...data import AREA, ATTEMPTS, RATIO, Photographs
from ...photograph import rgb
from ...protocol import Trial


def batches(trial: Trial, photographs: Photographs) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(trial.seed)
    loader = DataLoader(
        Augmented(photographs, trial),
        trial.batch_size,
        shuffle=True,
        num_workers=len(trial.cpus),
        persistent_workers=True,
        pin_memory=trial.device != "cpu",
        drop_last=True,
    )
    while True:
        yield from loader


class Augmented(Dataset[tuple[torch.Tensor, int]]):
    """The decoded and augmented images with their labels."""

    def __init__(self, photographs: Photographs, trial: Trial) -> None:
        self._photographs = photographs
        self._size = photographs.size
        self._mean, self._std = (
            torch.tensor(trial.normalize[name]).view(3, 1, 1) for name in ("mean", "std")
        )

    def __len__(self) -> int:
        return len(self._photographs.files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image = rgb(self._photographs.files[index])
        part = random_part(*image.size)
        image = image.crop(part).resize((self._size, self._size), Image.Resampling.BILINEAR)
        if random.random() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()
        scaled = pixels.float().div_(255).sub_(self._mean).div_(self._std)
        return scaled, int(self._photographs.labels[index])


def random_part(width: int, height: int) -> tuple[int, int, int, int]:
    """The left, top, right and bottom of a random part of an image, in pixels."""
    for _ in range(ATTEMPTS):
        area = width * height * random.uniform(*AREA)
        ratio = math.exp(random.uniform(*map(math.log, RATIO)))
        wide, high = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < wide <= width and 0 < high <= height:
            left, top = random.randint(0, width - wide), random.randint(0, height - high)
            return left, top, left + wide, top + high
    # The central part, as in torchvision.
    wide, high = min(width, round(height * RATIO[1])), min(height, round(width / RATIO[0]))
    left, top = (width - wide) // 2, (height - high) // 2
    return left, top, left + wide, top + high
