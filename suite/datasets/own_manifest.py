"""The manifest of data of the user."""

from __future__ import annotations

from suite.manifests.datasets import DatasetManifest, Normalize, Split
from suite.manifests.losses import Loss

MEAN, STD = 0.5, 0.25  # of the pixels of any images, which are scaled to 0..1


def describe(
    name: str,
    title: str,
    shape: tuple[int, ...],
    samples: dict[Split, int],
    *,
    pixels: bool,
    outputs: int,
    loss: Loss = "cross_entropy",
    positions: tuple[int, ...] = (),
) -> DatasetManifest:
    """The manifest; only `pixels` are normalized, other numbers stay as they are."""
    channels = shape[0] if len(shape) == 3 else 1
    mean, std = (MEAN, STD) if pixels else (0.0, 1.0)
    return DatasetManifest(
        name=name,
        title=title,
        format="own",
        shape=shape,
        classes=outputs,
        loss=loss,
        positions=positions,
        normalize=Normalize(mean=(mean,) * channels, std=(std,) * channels),
        samples=samples,
    )
