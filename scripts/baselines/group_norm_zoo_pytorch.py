"""A convolutional network with group norms, imported as group_norm.model.json.

dlsuite model import scripts/baselines/group_norm_zoo_pytorch.py:GroupNorms --input 3x32x32 \
    -o group_norm.model.json
"""

from itertools import pairwise

import torch
from torch import nn

WIDTHS = (3, 32, 64, 128)


class GroupNorms(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        blocks = []
        for before, width in pairwise(WIDTHS):
            convolution = nn.Conv2d(before, width, 3, padding=1, bias=False)
            blocks += [convolution, nn.GroupNorm(8, width), nn.ReLU(), nn.MaxPool2d(2)]
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(WIDTHS[-1] * 4 * 4, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(images).flatten(1))


if __name__ == "__main__":
    from train_pytorch import train

    train(GroupNorms())
