"""What each decoding process does: images from files into rows of one .npy file.

It imports no more than it needs, as every process does so anew.
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


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Images that lie together in the prepared file."""

    split: str
    first: int  # the row of the first image
    names: Sequence[str]


def begin() -> None:
    """Prepare a process: it ends with its parent, however that ends."""
    warnings.simplefilter("ignore")  # of odd metadata: the pixels are what counts
    threading.Thread(target=_follow_parent, daemon=True).start()


def decode(chunk: Chunk, root: Path, target: Path, offset: int, size: int) -> dict[str, str]:
    """Write the chunk's images as uint8 (3, size, size) into `target`, row by row from `offset`.

    Return the files that cannot be read, each with the reason; their rows are black. OSError where
    `root` has gone or `target` cannot be written.
    """
    rows = np.zeros((len(chunk.names), 3, size, size), np.uint8)
    unreadable = {}
    for row, name in zip(rows, chunk.names, strict=True):
        try:
            row[:] = pixels(root / name, size)
        except MemoryError:
            raise
        except Exception as error:  # whatever a decoder makes of a broken file
            root.stat()  # gone altogether (a drive, a mount): no fault of the file
            reason = str(error).replace(repr(str(root / name)), "").rstrip(": ")
            unreadable[name] = f"{type(error).__name__}: {reason}"
    with target.open("r+b") as file:
        file.seek(offset + chunk.first * rows[0].nbytes)
        file.write(rows.data)
        file.flush()
        os.fsync(file.fileno())  # before anybody notes that it is done
    return unreadable


def pixels(path: Path, size: int) -> NDArray[np.uint8]:
    """The middle of an image, uint8 (3, size, size) in RGB.

    The shorter side becomes 8/7 of `size` (256 for 224), bilinear with antialiasing, and the
    square of `size` in the middle is cut out. Orientation marks (EXIF) are not followed: ImageNet's
    are not to be.
    """
    with Image.open(path) as image:
        colours = image.convert("RGB")
    width, height = colours.size
    scale = size * 8 // 7 / min(width, height)
    width, height = max(size, round(width * scale)), max(size, round(height * scale))
    left, top = (width - size) // 2, (height - size) // 2
    scaled = colours.resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(scaled.crop((left, top, left + size, top + size))).transpose(2, 0, 1)


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
