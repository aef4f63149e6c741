"""ResNet-50 of Gluon's model zoo, with the strides moved to where the suite has them.

In the original (v1) they are in the first convolution of a block, which then does less work. It
also adds a bias in the 1 x 1 convolutions.
"""

from mxnet.gluon.model_zoo.vision import resnet50_v1
from train_mxnet import train

model = resnet50_v1()
for stage in model.features[5:8]:  # the stages that halve height and width
    first, _, _, second, *_ = stage[0].body
    first._kwargs["stride"], second._kwargs["stride"] = (1, 1), (2, 2)
train(model)
