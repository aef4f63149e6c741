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
class Chunk:
    """Images in consecutive rows of the prepared file."""

    split: str
    first: int  # the row of the first image
    names: Sequence[str]


def begin() -> None:
    """Initialize a process; it ends when its parent ends, for whatever reason."""
    warnings.simplefilter("ignore")  # about metadata, which is not used
    threading.Thread(target=_follow_parent, daemon=True).start()


def decode(chunk: Chunk, root: Path, target: Path, offset: int, size: int) -> dict[str, str]:
    """Write the chunk's images as uint8 (3, size, size) into `target`, row by row from `offset`.

    Return the unreadable files, each with the reason; their rows are black. Raise OSError where
    `root` no longer exists or `target` cannot be written.
    """
    rows = np.zeros((len(chunk.names), 3, size, size), np.uint8)
    unreadable = {}
    for row, name in zip(rows, chunk.names, strict=True):
        try:
            row[:] = pixels(root / name, size)
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


def pixels(path: Path, size: int) -> NDArray[np.uint8]:
    """The central square of an image, uint8 (3, size, size) in RGB.

    The shorter side is scaled to 8/7 of `size` (256 for 224), bilinear with antialiasing. The
    central square of `size` is cropped from the result. EXIF orientation is ignored, as is usual
    for ImageNet. Of a strip, only the middle is scaled: all of it may take gigabytes.
    """
    colours = _middle(rgb(path))
    width, height = colours.size
    scale = size * 8 // 7 / min(width, height)
    width, height = max(size, round(width * scale)), max(size, round(height * scale))
    left, top = (width - size) // 2, (height - size) // 2
    scaled = colours.resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(scaled.crop((left, top, left + size, top + size))).transpose(2, 0, 1)


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
