"""U-Net (Ronneberger et al. 2015): a class for each pixel.

The convolutions are padded, so that nothing is cropped, and have batch norms; images are small and
there are a quarter of the channels, so that it trains on a CPU.
"""

from __future__ import annotations

from suite.models.architecture import Architecture
from suite.models.branches import Concat
from suite.models.layers import Conv2d, Layer, MaxPool2d, Relu, TransposedConv2d, conv_norm
from suite.models.sequences import Tokens

SIZE, CLASSES, CHANNELS, LEVELS = 64, 4, 16, 4


def unet_small() -> Architecture:
    """Four levels from 64 x 64 to 8 x 8, 16 to 128 channels."""
    head = Conv2d(name="head", in_channels=CHANNELS, out_channels=CLASSES, kernel=(1, 1))
    return Architecture(
        name="unet_small",
        input_shape=(3, SIZE, SIZE),
        classes=CLASSES,
        layers=(*_level(1, 3, CHANNELS), head, Tokens(name="pixels")),
    )


def _level(number: int, inputs: int, channels: int) -> tuple[Layer, ...]:
    """The convolutions of a level, and those below it, whose result is joined to theirs."""
    down = _double(f"down{number}", inputs, channels)
    if number == LEVELS:
        return down
    below = (
        MaxPool2d(name=f"pool{number}", kernel=(2, 2), stride=(2, 2)),
        *_level(number + 1, channels, 2 * channels),
        TransposedConv2d(
            name=f"grow{number}",
            in_channels=2 * channels,
            out_channels=channels,
            kernel=(2, 2),
            stride=(2, 2),
        ),
    )
    joined = Concat(name=f"join{number}", branches=((), below))
    return (*down, joined, *_double(f"up{number}", 2 * channels, channels))


def _double(name: str, inputs: int, channels: int) -> tuple[Layer, ...]:
    """Two convolutions, each with a batch norm and a ReLU."""
    return (
        *conv_norm(f"{name}a", inputs, channels, kernel=3),
        Relu(name=f"{name}a_relu"),
        *conv_norm(f"{name}b", channels, channels, kernel=3),
        Relu(name=f"{name}b_relu"),
    )
