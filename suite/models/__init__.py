"""The models: a module for each family of architectures, and the table of all."""

from collections.abc import Callable

from suite.models.adnn import adnn_cnn
from suite.models.alexnet import alexnet, alexnet_cifar10
from suite.models.architecture import Architecture
from suite.models.db import db_mlp
from suite.models.every_layer import every_layer, every_sequence
from suite.models.googlenet import googlenet, googlenet_cifar10
from suite.models.kent import kent_big, kent_medium, kent_small
from suite.models.lenet import lenet
from suite.models.lstm import lstm
from suite.models.resnet50 import resnet50, resnet50_cifar10
from suite.models.vgg16 import vgg16, vgg16_cifar10
from suite.models.vit_tiny import vit_tiny, vit_tiny_cifar10

MODELS: dict[str, Callable[[], Architecture]] = {
    make.__name__: make
    for make in (
        lenet,
        kent_small,
        kent_medium,
        kent_big,
        adnn_cnn,
        db_mlp,
        lstm,
        alexnet_cifar10,
        googlenet_cifar10,
        resnet50_cifar10,
        vgg16_cifar10,
        vit_tiny_cifar10,
        alexnet,
        googlenet,
        resnet50,
        vgg16,
        vit_tiny,
        every_layer,
        every_sequence,
    )
}
