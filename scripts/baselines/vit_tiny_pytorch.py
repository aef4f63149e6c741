"""ViT-Tiny in PyTorch, as one would write it by hand."""

import torch
from common import PATCH, PATCHES, VIT_BLOCKS, VIT_EPSILON, VIT_FEATURES, VIT_HEADS
from torch import nn
from torch.nn import functional
from train_pytorch import train


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.input = nn.Linear(VIT_FEATURES, 3 * VIT_FEATURES)
        self.output = nn.Linear(VIT_FEATURES, VIT_FEATURES)

    def forward(self, x):
        parts = self.input(x).split(VIT_FEATURES, dim=2)
        q, k, v = (part.unflatten(2, (VIT_HEADS, -1)).transpose(1, 2) for part in parts)
        y = functional.scaled_dot_product_attention(q, k, v)
        return self.output(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.Sequential(nn.LayerNorm(VIT_FEATURES, VIT_EPSILON), Attention())
        self.perceptron = nn.Sequential(
            nn.LayerNorm(VIT_FEATURES, VIT_EPSILON),
            nn.Linear(VIT_FEATURES, 4 * VIT_FEATURES),
            nn.GELU(),
            nn.Linear(4 * VIT_FEATURES, VIT_FEATURES),
        )

    def forward(self, x):
        x = x + self.attention(x)
        return x + self.perceptron(x)


class Vit(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, VIT_FEATURES, PATCH, PATCH)
        self.first = nn.Parameter(torch.zeros(1, 1, VIT_FEATURES))
        self.positions = nn.Parameter(0.02 * torch.randn(PATCHES + 1, VIT_FEATURES))
        self.blocks = nn.Sequential(
            *(Block() for _ in range(VIT_BLOCKS)), nn.LayerNorm(VIT_FEATURES, VIT_EPSILON)
        )
        self.classes = nn.Linear(VIT_FEATURES, 1000)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], dim=1) + self.positions
        return self.classes(self.blocks(x)[:, 0])


model = Vit()

if __name__ == "__main__":
    train(model)
