"""ResNet-50 (He et al. 2015) in its v1.5 form: the stride is in the 3 x 3 convolution.

ImageNet form: torchvision's definition, 25,557,032 parameters. CIFAR-10 form: the definition of
kuangliu/pytorch-cifar, which starts with a 3 x 3 convolution of stride 1 and has no pool there,
23,520,842 parameters.
"""

from suite.models.architecture import Architecture
from suite.models.branches import Add
from suite.models.layers import Dense, GlobalAvgPool2d, Layer, MaxPool2d, Relu, Shape, conv_norm

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # channels, blocks, first stride
EXPANSION = 4


def resnet50() -> Architecture:
    start = (
        *conv_norm("conv1", 3, 64, kernel=7, stride=2),  # 64 x 112 x 112
        Relu(name="relu1"),
        MaxPool2d(name="pool1", kernel=(3, 3), stride=(2, 2), padding=(1, 1)),  # 64 x 56 x 56
    )
    return _architecture("resnet50", start, (3, 224, 224), classes=1000)


def resnet50_cifar10() -> Architecture:
    start = (*conv_norm("conv1", 3, 64, kernel=3), Relu(name="relu1"))  # 64 x 32 x 32
    return _architecture("resnet50_cifar10", start, (3, 32, 32), classes=10)


def _architecture(
    name: str, start: tuple[Layer, ...], shape: Shape, *, classes: int
) -> Architecture:
    blocks: list[Layer] = []
    channels = 64
    for stage, (size, count, first_stride) in enumerate(STAGES, start=1):
        for number in range(count):
            stride = first_stride if number == 0 else 1
            blocks += _bottleneck(f"stage{stage}_{number}", channels, size, stride)
            channels = EXPANSION * size
    end = (
        GlobalAvgPool2d(name="pool"),
        Dense(name="classes", in_features=channels, out_features=classes),
    )
    return Architecture(
        name=name, input_shape=shape, classes=classes, layers=(*start, *blocks, *end)
    )


def _bottleneck(name: str, inputs: int, size: int, stride: int) -> tuple[Layer, ...]:
    outputs = EXPANSION * size
    main = (
        *conv_norm(f"{name}_conv1", inputs, size),
        Relu(name=f"{name}_relu1"),
        *conv_norm(f"{name}_conv2", size, size, kernel=3, stride=stride),
        Relu(name=f"{name}_relu2"),
        *conv_norm(f"{name}_conv3", size, outputs, initial_scale=0.0),
    )
    same = inputs == outputs and stride == 1
    shortcut = () if same else conv_norm(f"{name}_shortcut", inputs, outputs, stride=stride)
    return (Add(name=f"{name}_add", branches=(main, shortcut)), Relu(name=f"{name}_relu3"))
