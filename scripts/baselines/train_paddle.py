"""Trains the models of the PaddlePaddle scripts."""

import os

import paddle
from common import LEARNING_RATE, VARIANT, data, serve
from paddle import nn


def train(model: nn.Layer) -> None:
    # PaddlePaddle uses one thread by default, also where OMP_NUM_THREADS is set.
    paddle.base.core.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    run = paddle.jit.to_static(model, full_graph=True) if VARIANT == "static" else model
    optimizer = paddle.optimizer.SGD(LEARNING_RATE, model.parameters())
    loss_function = nn.CrossEntropyLoss()

    def step(x, y):
        loss = loss_function(run(paddle.to_tensor(x)), paddle.to_tensor(y))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad(set_to_zero=False)

    serve(step, lambda: None, *data())
