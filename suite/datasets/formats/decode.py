"""The work of a decoding process: images from files into rows of one .npy file.

It imports as little as possible, because every process imports it again.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from suite.worker.photograph import rgb

STRIP = 16  # an image with a longer side than this many shorter ones is first cropped


@dataclass(frozen=True, kw_only=True)
class Form:
    """What an image becomes: uint8 (channels, height, width)."""

    channels: int  # 3: RGB; 1: grey
    height: int
    width: int
    resize: int | None  # the shorter side is scaled to it before the crop; None: not scaled

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.channels, self.height, self.width


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Images in consecutive rows of the prepared file."""

    split: str
    first: int  # the row of the first image
    names: Sequence[str]


def begin() -> None:
    """Initialize a process; it ends when its parent ends, for whatever reason."""
    warnings.simplefilter("ignore")  # about metadata, which is not used
    threading.Thread(target=_follow_parent, daemon=True).start()


def decode(chunk: Chunk, root: Path, target: Path, offset: int, form: Form) -> dict[str, str]:
    """Write the chunk's images in their form into `target`, row by row from `offset`.

    Return the unreadable files, each with the reason; their rows are black. Raise OSError where
    `root` no longer exists or `target` cannot be written.
    """
    rows = np.zeros((len(chunk.names), *form.shape), np.uint8)
    unreadable = {}
    for row, name in zip(rows, chunk.names, strict=True):
        try:
            row[:] = pixels(root / name, form)
        except MemoryError:
            raise
        except Exception as error:  # decoders raise many kinds for a broken file
            root.stat()  # raises where the whole folder is gone, as with a removed drive
            reason = str(error).replace(repr(str(root / name)), "").rstrip(": ")
            unreadable[name] = f"{type(error).__name__}: {reason}"
    with target.open("r+b") as file:
        file.seek(offset + chunk.first * rows[0].nbytes)
        file.write(rows.data)
        file.flush()
        os.fsync(file.fileno())  # before the journal records the chunk as done
    return unreadable


def photograph(size: int) -> Form:
    """The form of ImageNet: the shorter side is scaled to 8/7 of `size`, 256 for 224."""
    return Form(channels=3, height=size, width=size, resize=size * 8 // 7)


def pixels(path: Path, form: Form) -> NDArray[np.uint8]:
    """The central part of an image, uint8 (channels, height, width).

    It is scaled bilinearly with antialiasing. EXIF orientation is ignored, as is usual for
    ImageNet. Of a strip, only the middle is scaled: all of it may take gigabytes. Raise ValueError
    where the image is not scaled and smaller than the form.
    """
    image = rgb(path)
    if form.resize:
        image = _scaled(_middle(image), form, form.resize)
    width, height = image.size
    left, top = (width - form.width) // 2, (height - form.height) // 2
    if left < 0 or top < 0:
        raise ValueError(f"{width} x {height} pixels, smaller than {form.width} x {form.height}")
    image = image.crop((left, top, left + form.width, top + form.height))
    if form.channels == 1:
        return np.asarray(image.convert("L"))[None]
    return np.asarray(image).transpose(2, 0, 1)


def _scaled(image: Image.Image, form: Form, shorter: int) -> Image.Image:
    """The image with a shorter side of `shorter`, and at least as large as the form."""
    scale = shorter / min(image.size)
    width = max(form.width, round(image.size[0] * scale))
    height = max(form.height, round(image.size[1] * scale))
    return image.resize((width, height), Image.Resampling.BILINEAR)


def _middle(image: Image.Image) -> Image.Image:
    """The image, its longer side cropped to at most STRIP times the shorter one."""
    width, height = image.size
    wide, high = min(width, STRIP * height), min(height, STRIP * width)
    left, top = (width - wide) // 2, (height - high) // 2
    return image.crop((left, top, left + wide, top + high))


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
