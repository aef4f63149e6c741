"""Weights of the user, from which training and inference start: kept once under their SHA-256.

A file has the parameters of a model by their canonical names, and the statistics of batch norms
(docs/reference/protocol.md), as `dlsuite model import` writes them.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from suite.errors import DataError
from suite.manifests import model_files, weight_files
from suite.models.architecture import Architecture
from suite.paths import replacing, sha256


def register(path: Path, architecture: Architecture) -> str:
    """Keep the weights in a file; return their SHA-256.

    Raise ManifestError where they are not those of the model.
    """
    model_files.read_weights(path, architecture)
    digest = sha256(path)
    kept = weight_files.path_of(digest)
    if not kept.is_file():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with replacing(kept) as part:
            shutil.copyfile(path, part)
    return digest


def read(digest: str, architecture: Architecture) -> dict[str, NDArray[Any]]:
    """The weights with this SHA-256; DataError where they are not kept here, or have changed."""
    kept = weight_files.path_of(digest)
    if not kept.is_file() or sha256(kept) != digest:
        raise DataError(
            f"{kept}: the weights of the run are not here, or have changed",
            hint="dlsuite run ... --weights FILE",
        )
    return model_files.read_weights(kept, architecture)
