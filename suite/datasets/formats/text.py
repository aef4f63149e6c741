"""One file of text as tokens, one for each byte: first those for training, then those for tests.

A sample is a sequence of tokens as long as the model's input; its labels are the tokens that follow
each of them. Sequences do not overlap.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suite.manifests.datasets import DatasetManifest
from suite.models.layer import Shape


def arrays(manifest: DatasetManifest, raw: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    """The prepared arrays, by name, from the raw file in the folder `raw`."""
    tokens = np.fromfile(raw / manifest.files["text"].name, np.uint8)
    training = manifest.tokens["train"]
    yield "train_tokens", tokens[:training]
    yield "test_tokens", tokens[training:]


def fitted(manifest: DatasetManifest, shape: Shape) -> DatasetManifest:
    """The manifest with the shape (length,) of a sequence and of its labels, and their number."""
    (length,) = shape
    # The label of a token is the next one; the last token has none.
    samples = {split: (tokens - 1) // length for split, tokens in manifest.tokens.items()}
    return manifest.model_copy(update={"shape": shape, "positions": shape, "samples": samples})
