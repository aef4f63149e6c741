"""Trains the models of the MXNet scripts."""

import mxnet as mx
from common import BATCH, LEARNING_RATE, data, serve
from mxnet import autograd, gluon


def train(model: gluon.HybridBlock) -> None:
    images, labels, order = data()
    model.initialize(mx.init.Xavier())
    model.hybridize(static_alloc=True, static_shape=True)
    loss_function = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(model.collect_params(), "sgd", {"learning_rate": LEARNING_RATE})

    def step(batch):
        x, y = mx.nd.from_numpy(images[batch]), mx.nd.from_numpy(labels[batch])
        with autograd.record():
            loss = loss_function(model(x), y)
        loss.backward()
        trainer.step(BATCH)

    serve(step, mx.nd.waitall, order)
