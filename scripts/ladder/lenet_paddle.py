"""LeNet in PaddlePaddle: a layer, run eagerly."""

import paddle
from common import LEARNING_RATE, run, weights
from paddle import nn
from paddle.nn import functional


class LeNet(nn.Layer):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2D(1, 20, 5)
        self.conv2 = nn.Conv2D(20, 50, 5)
        self.dense1 = nn.Linear(800, 500)
        self.dense2 = nn.Linear(500, 10)

    def forward(self, x):
        x = functional.max_pool2d(self.conv1(x), 2)
        x = functional.max_pool2d(self.conv2(x), 2)
        x = functional.relu(self.dense1(x.flatten(1)))
        return self.dense2(x)


model = LeNet()
# A linear layer's weight is (in, out).
model.set_state_dict({name: v.T if v.ndim == 2 else v for name, v in weights().items()})


@paddle.no_grad()
def predict(image):
    return model(paddle.to_tensor(image)).numpy()


# Training
optimizer = paddle.optimizer.SGD(LEARNING_RATE, parameters=model.parameters())


def train_step(images, labels):
    logits = model(paddle.to_tensor(images))
    loss = functional.cross_entropy(logits, paddle.to_tensor(labels, "int64"))
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    return loss.detach()


run(predict, train_step)
