"""A small GPT in PyTorch, as one would write it by hand."""

import torch
from common import (
    BETAS,
    BLOCKS,
    DECAY,
    EPSILON,
    FEATURES,
    HEADS,
    LEARNING_RATE,
    LENGTH,
    MIXED,
    VARIANT,
    VOCABULARY,
    serve,
    text,
)
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.input = nn.Linear(FEATURES, 3 * FEATURES)
        self.output = nn.Linear(FEATURES, FEATURES)

    def forward(self, x):
        batch = len(x)
        parts = self.input(x).split(FEATURES, dim=2)
        q, k, v = (part.view(batch, LENGTH, HEADS, -1).transpose(1, 2) for part in parts)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.output(y.transpose(1, 2).reshape(batch, LENGTH, FEATURES))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.Sequential(nn.LayerNorm(FEATURES), Attention())
        self.perceptron = nn.Sequential(
            nn.LayerNorm(FEATURES),
            nn.Linear(FEATURES, 4 * FEATURES),
            nn.GELU(),
            nn.Linear(4 * FEATURES, FEATURES),
        )

    def forward(self, x):
        x = x + self.attention(x)
        return x + self.perceptron(x)


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, FEATURES)
        self.positions = nn.Embedding(LENGTH, FEATURES)
        nn.init.normal_(self.tokens.weight, std=0.02)
        nn.init.normal_(self.positions.weight, std=0.02)
        self.blocks = nn.Sequential(*(Block() for _ in range(BLOCKS)), nn.LayerNorm(FEATURES))
        self.head = nn.Linear(FEATURES, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(LENGTH))
        return self.head(self.blocks(x))


inputs, labels, order = text()
inputs, labels = torch.from_numpy(inputs), torch.from_numpy(labels).long()
model = Gpt()
run = torch.compile(model) if VARIANT == "compiled" else model
optimizer = torch.optim.AdamW(
    model.parameters(), LEARNING_RATE, BETAS, eps=EPSILON, weight_decay=DECAY
)


def step(x, y):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=MIXED):
        logits = run(x)
    loss = functional.cross_entropy(logits.float().view(-1, VOCABULARY), y.view(-1))
    loss.backward()
    optimizer.step()


serve(step, lambda: None, inputs, labels, order)
