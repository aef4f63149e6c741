"""Photographs by Gluon's DataLoader and vision transforms, one process for each core."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mxnet as mx
import numpy as np
from mxnet.gluon.data import DataLoader, Dataset
from mxnet.gluon.data.vision import transforms

from ...data import AREA, RATIO, Photographs
from ...protocol import Trial


def batches(trial: Trial, photographs: Photographs) -> Iterator[tuple[Any, Any]]:
    mx.random.seed(trial.seed)
    np.random.seed(trial.seed)  # Gluon shuffles with numpy
    augment = transforms.Compose(
        [
            transforms.RandomResizedCrop(photographs.size, scale=AREA, ratio=RATIO),
            transforms.RandomFlipLeftRight(),
            transforms.ToTensor(),
            transforms.Normalize(trial.normalize["mean"], trial.normalize["std"]),
        ]
    )
    loader = DataLoader(
        Decoded(photographs).transform_first(augment),
        trial.batch_size,
        shuffle=True,
        num_workers=len(trial.cpus),
        last_batch="discard",
        pin_memory=trial.device != "cpu",
    )
    while True:
        yield from loader


class Decoded(Dataset):
    """The decoded images with their labels."""

    def __init__(self, photographs: Photographs) -> None:
        self._photographs = photographs

    def __len__(self) -> int:
        return len(self._photographs.files)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image = mx.image.imread(str(self._photographs.files[index]))
        return image, self._photographs.labels[index]
