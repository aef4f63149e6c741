"""IDX files of unsigned bytes, the format of MNIST."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suite.manifests.datasets import DatasetManifest


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
