"""Trains the models of the MXNet scripts."""

import mxnet as mx
from common import BATCH, LEARNING_RATE, data, serve
from mxnet import autograd, gluon


def train(model: gluon.HybridBlock) -> None:
    model.initialize(mx.init.Xavier())
    model.hybridize(static_alloc=True, static_shape=True)
    loss_function = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(model.collect_params(), "sgd", {"learning_rate": LEARNING_RATE})

    def step(x, y):
        x, y = mx.nd.from_numpy(x), mx.nd.from_numpy(y)
        with autograd.record():
            loss = loss_function(model(x), y)
        loss.backward()
        trainer.step(BATCH)

    serve(step, mx.nd.waitall, *data())
