"""IDX files of unsigned bytes, the format of MNIST."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suite.datasets.formats.arrays import loaded
from suite.manifests.datasets import DatasetManifest

MOST = 255  # of an unsigned byte


def arrays(manifest: DatasetManifest, raw: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    """The prepared arrays, by name, from the raw files in the folder `raw`."""
    for role, file in manifest.files.items():
        split, _, kind = role.partition("_")
        values = read(raw / file.name)
        if kind == "images":
            yield f"{split}_inputs", values.reshape(-1, *manifest.shape)
        else:
            yield f"{split}_labels", values.astype(np.int32)


def read(path: Path) -> NDArray[np.uint8]:
    """The array of one file; ValueError where the file has another type or is truncated."""
    content = path.read_bytes()
    zeros, kind, rank = struct.unpack_from(">HBB", content)
    if zeros or kind != 8:
        raise ValueError(f"{path}: not an IDX file of unsigned bytes")
    shape = struct.unpack_from(f">{rank}I", content, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape)


def from_npz(path: Path, folder: Path, manifest: DatasetManifest) -> list[Path]:
    """Write the arrays of Keras's mnist.npz as IDX files; none where it has other arrays.

    They may be of any type of whole numbers.
    """
    written = []
    folder.mkdir(exist_ok=True)
    with loaded(path, several=True) as arrays:
        for role, file in manifest.files.items():
            split, _, kind = role.partition("_")
            name = f"{'x' if kind == 'images' else 'y'}_{split}"
            values = arrays[name] if name in arrays else np.zeros(0)
            if not _are_bytes(values):
                return []
            values = values.astype(np.uint8)
            head = struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape)
            written.append(folder / file.name)
            written[-1].write_bytes(head + values.tobytes())
    return written


def _are_bytes(values: NDArray[Any]) -> bool:
    """Whether these are whole numbers from 0 to 255, of any type."""
    whole = values.dtype.kind in "iu" and values.size > 0
    return whole and values.min() >= 0 and bool(values.max() <= MOST)
