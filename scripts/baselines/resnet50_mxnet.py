"""ResNet-50 (v1.5) in MXNet Gluon, as one would write it by hand."""

from common import STAGES
from mxnet import gluon
from mxnet.gluon import nn
from train_mxnet import train


def conv_norm(block, size, kernel=1, stride=1):
    block.add(nn.Conv2D(size, kernel, stride, kernel // 2, use_bias=False), nn.BatchNorm())
    return block


class Bottleneck(gluon.HybridBlock):
    def __init__(self, inputs, size, stride):
        super().__init__()
        with self.name_scope():
            self.main = conv_norm(nn.HybridSequential(), size)
            self.main.add(nn.Activation("relu"))
            conv_norm(self.main, size, 3, stride).add(nn.Activation("relu"))
            conv_norm(self.main, 4 * size)
            same = inputs == 4 * size and stride == 1
            self.shortcut = None
            if not same:
                self.shortcut = conv_norm(nn.HybridSequential(), 4 * size, 1, stride)

    def hybrid_forward(self, F, x):  # noqa: N803, the name is Gluon's
        shortcut = self.shortcut(x) if self.shortcut else x
        return F.Activation(self.main(x) + shortcut, act_type="relu")


model = conv_norm(nn.HybridSequential(), 64, 7, 2)
model.add(nn.Activation("relu"), nn.MaxPool2D(3, 2, 1))
channels = 64
for size, count, first_stride in STAGES:
    for number in range(count):
        model.add(Bottleneck(channels, size, first_stride if number == 0 else 1))
        channels = 4 * size
model.add(nn.GlobalAvgPool2D(), nn.Dense(1000))

if __name__ == "__main__":
    train(model)
