"""ViT-Tiny (Dosovitskiy et al. 2020) in the size of DeiT-Ti (Touvron et al. 2020), no dropout.

ImageNet form: patches of 16, as in timm's vit_tiny_patch16_224, 5,717,416 parameters. CIFAR-10
form: the same on 32 x 32 with patches of 4, 5,362,762 parameters.
"""

from typing import Any

from suite.models.architecture import Architecture
from suite.models.layers import Conv2d, Dense, LayerNorm
from suite.models.sequences import ClassToken, FirstToken, PositionEmbedding, Tokens
from suite.models.transformer import block

SIZE, HEADS, BLOCKS = 192, 3, 12


def vit_tiny() -> Architecture:
    return _architecture("vit_tiny", image=224, patch=16, classes=1000)


def vit_tiny_cifar10() -> Architecture:
    return _architecture("vit_tiny_cifar10", image=32, patch=4, classes=10)


def _architecture(name: str, *, image: int, patch: int, classes: int) -> Architecture:
    window: dict[str, Any] = {"kernel": (patch, patch), "stride": (patch, patch)}
    length = (image // patch) ** 2 + 1
    layers = (
        Conv2d(name="patches", in_channels=3, out_channels=SIZE, **window),
        Tokens(name="tokens"),
        ClassToken(name="class_token", features=SIZE),
        PositionEmbedding(name="positions", length=length, features=SIZE),
        *(layer for number in range(BLOCKS) for layer in block(f"block{number}", SIZE, HEADS)),
        LayerNorm(name="norm", features=SIZE),
        FirstToken(name="first_token"),
        Dense(name="classes", in_features=SIZE, out_features=classes),
    )
    return Architecture(name=name, input_shape=(3, image, image), classes=classes, layers=layers)
