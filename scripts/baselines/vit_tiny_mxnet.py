"""ViT-Tiny in MXNet Gluon, as one would write it by hand."""

from common import PATCH, PATCHES, VIT_BLOCKS, VIT_EPSILON, VIT_FEATURES, VIT_HEADS
from mxnet import gluon
from mxnet.gluon import nn
from train_mxnet import train


class Attention(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.input = nn.Dense(3 * VIT_FEATURES, flatten=False)
            self.output = nn.Dense(VIT_FEATURES, flatten=False)

    def hybrid_forward(self, F, x):  # noqa: N803, the name is Gluon's
        size = VIT_FEATURES // VIT_HEADS
        parts = self.input(x).reshape((0, 0, 3, VIT_HEADS, size)).transpose((2, 0, 3, 1, 4))
        parts = parts.reshape((3, -1, PATCHES + 1, size))
        q, k, v = F.split(parts, 3, axis=0, squeeze_axis=True)
        scores = F.batch_dot(q, k, transpose_b=True) * size**-0.5
        y = F.batch_dot(F.softmax(scores), v).reshape((-1, VIT_HEADS, PATCHES + 1, size))
        return self.output(y.transpose((0, 2, 1, 3)).reshape((0, 0, -1)))


class Block(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.attention, self.perceptron = nn.HybridSequential(), nn.HybridSequential()
            self.attention.add(nn.LayerNorm(epsilon=VIT_EPSILON), Attention())
            self.perceptron.add(
                nn.LayerNorm(epsilon=VIT_EPSILON),
                nn.Dense(4 * VIT_FEATURES, flatten=False),
                nn.GELU(),
                nn.Dense(VIT_FEATURES, flatten=False),
            )

    def hybrid_forward(self, F, x):  # noqa: N803, the name is Gluon's
        x = x + self.attention(x)
        return x + self.perceptron(x)


class Vit(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.patches = nn.Conv2D(VIT_FEATURES, PATCH, PATCH)
            self.first = self.params.get("first", shape=(1, 1, VIT_FEATURES))
            self.positions = self.params.get("positions", shape=(1, PATCHES + 1, VIT_FEATURES))
            self.blocks = nn.HybridSequential()
            self.blocks.add(
                *(Block() for _ in range(VIT_BLOCKS)), nn.LayerNorm(epsilon=VIT_EPSILON)
            )
            self.classes = nn.Dense(1000)

    def hybrid_forward(self, F, x, first, positions):  # noqa: N803, the name is Gluon's
        x = self.patches(x).reshape((0, 0, -1)).transpose((0, 2, 1))
        first = F.broadcast_like(first, x, lhs_axes=(0,), rhs_axes=(0,))
        x = F.broadcast_add(F.concat(first, x, dim=1), positions)
        x = F.slice_axis(self.blocks(x), axis=1, begin=0, end=1)
        return self.classes(x)


model = Vit()

if __name__ == "__main__":
    train(model)
