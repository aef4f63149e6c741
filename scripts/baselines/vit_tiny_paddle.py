"""ViT-Tiny in PaddlePaddle, as one would write it by hand."""

import paddle
from common import PATCH, PATCHES, VIT_BLOCKS, VIT_EPSILON, VIT_FEATURES, VIT_HEADS
from paddle import nn
from paddle.nn import functional
from train_paddle import train


class Attention(nn.Layer):
    def __init__(self):
        super().__init__()
        self.input = nn.Linear(VIT_FEATURES, 3 * VIT_FEATURES)
        self.output = nn.Linear(VIT_FEATURES, VIT_FEATURES)

    def forward(self, x):
        shape = [-1, PATCHES + 1, 3, VIT_HEADS, VIT_FEATURES // VIT_HEADS]
        q, k, v = self.input(x).reshape(shape).transpose([2, 0, 3, 1, 4]).unbind()
        scores = paddle.matmul(q, k, transpose_y=True) * shape[-1] ** -0.5
        y = paddle.matmul(functional.softmax(scores), v)
        return self.output(y.transpose([0, 2, 1, 3]).flatten(2))


class Block(nn.Layer):
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


class Vit(nn.Layer):
    def __init__(self):
        super().__init__()
        small = nn.initializer.Normal(std=0.02)
        self.patches = nn.Conv2D(3, VIT_FEATURES, PATCH, PATCH)
        self.first = self.create_parameter([1, 1, VIT_FEATURES], default_initializer=small)
        shape = [PATCHES + 1, VIT_FEATURES]
        self.positions = self.create_parameter(shape, default_initializer=small)
        self.blocks = nn.Sequential(
            *(Block() for _ in range(VIT_BLOCKS)), nn.LayerNorm(VIT_FEATURES, VIT_EPSILON)
        )
        self.classes = nn.Linear(VIT_FEATURES, 1000)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose([0, 2, 1])
        x = paddle.concat([self.first.expand([x.shape[0], -1, -1]), x], 1) + self.positions
        return self.classes(self.blocks(x)[:, 0])


model = Vit()

if __name__ == "__main__":
    train(model)
