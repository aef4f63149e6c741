"""LeNet in MXNet: Gluon, hybridized."""

from common import BATCH, LEARNING_RATE, run, weights
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

model = nn.HybridSequential()
model.add(
    nn.Conv2D(20, 5, in_channels=1),
    nn.MaxPool2D(),
    nn.Conv2D(50, 5, in_channels=20),
    nn.MaxPool2D(),
    nn.Dense(500, in_units=800, activation="relu"),
    nn.Dense(10, in_units=500),
)
model.initialize()
for parameter, values in zip(model.collect_params().values(), weights().values(), strict=True):
    parameter.set_data(values)
model.hybridize(static_alloc=True, static_shape=True)


def predict(image):
    return model(nd.array(image)).asnumpy()


# Training
trainer = gluon.Trainer(model.collect_params(), "sgd", {"learning_rate": LEARNING_RATE})
loss_function = gluon.loss.SoftmaxCrossEntropyLoss()


def train_step(images, labels):
    with autograd.record():
        losses = loss_function(model(nd.array(images)), nd.array(labels))
    losses.backward()
    trainer.step(BATCH)
    return losses.mean()


run(predict, train_step, read=nd.NDArray.asscalar)
