"""A recurrent network of PyTorch's own modules, imported as gru.model.json.

dlsuite model import scripts/baselines/gru_zoo_pytorch.py:Gru --input 3x32x32 -o gru.model.json
"""

import torch
from torch import nn


class Gru(nn.Module):
    """The patches of an image are the steps of the sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 64, 4, 4)
        self.gru = nn.GRU(64, 128, batch_first=True)
        self.head = nn.Linear(128, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        states, _ = self.gru(self.patches(images).flatten(2).transpose(1, 2))
        return self.head(states[:, -1])


if __name__ == "__main__":
    from train_pytorch import train

    train(Gru())
