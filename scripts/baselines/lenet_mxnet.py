"""LeNet in MXNet Gluon, as one would write it by hand."""

import mxnet as mx
from common import BATCH, LEARNING_RATE, data, serve
from mxnet import autograd, gluon
from mxnet.gluon import nn

images, labels, order = data()

model = nn.HybridSequential()
model.add(
    nn.Conv2D(20, 5),
    nn.MaxPool2D(2, 2),
    nn.Conv2D(50, 5),
    nn.MaxPool2D(2, 2),
    nn.Dense(500, activation="relu"),
    nn.Dense(10),
)
model.initialize(mx.init.Xavier())
model.hybridize(static_alloc=True, static_shape=True)
loss_function = gluon.loss.SoftmaxCrossEntropyLoss()
trainer = gluon.Trainer(model.collect_params(), "sgd", {"learning_rate": LEARNING_RATE})


def step(batch):
    x, y = mx.nd.array(images[batch]), mx.nd.array(labels[batch])
    with autograd.record():
        loss = loss_function(model(x), y)
    loss.backward()
    trainer.step(BATCH)


serve(step, mx.nd.waitall, order)
