"""Reads an image file with Pillow: the one rule of `data prepare` and of PyTorch's loader.

Only these two import it: most frameworks' environments have no Pillow. It equals the decoders of
TensorFlow: JPEG or PNG by its content, alpha is dropped, 16 bits become the higher 8.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

FORMATS = ("JPEG", "PNG")  # of a JPEG with several pictures (MPO), the first


def rgb(path: Path) -> Image.Image:
    """The image in RGB, its orientation in EXIF ignored.

    Raise UnidentifiedImageError where it is neither JPEG nor PNG, other errors where it is broken.
    """
    try:
        with Image.open(path, formats=FORMATS) as image:
            image.load()
            return (_higher_bits(image) if image.mode.startswith("I") else image).convert("RGB")
    except UnidentifiedImageError:
        with Image.open(path) as image:  # raises where it is no image at all
            raise UnidentifiedImageError(f"{image.format}, neither JPEG nor PNG") from None


def _higher_bits(image: Image.Image) -> Image.Image:
    """A grey image of 16 bits in 8, as libpng makes it; Pillow would make all above 255 white."""
    return Image.fromarray((np.asarray(image).astype(np.int64) >> 8).astype(np.uint8))
