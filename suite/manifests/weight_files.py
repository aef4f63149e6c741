"""The files of the user's weights: kept under their SHA-256, and copied into the runs' folders."""

from __future__ import annotations

import shutil
from pathlib import Path

from suite.paths import home, replacing, sha256

FOLDER = "weights"  # in DLSUITE_HOME, and in the folder of a run


def path_of(digest: str) -> Path:
    """The kept file of the weights with this SHA-256."""
    return home() / FOLDER / f"{digest}.safetensors"


def copy_into(folder: Path, digest: str) -> None:
    """Copy the weights with this SHA-256 into a run's folder; raise OSError where that fails."""
    (folder / FOLDER).mkdir(exist_ok=True)
    shutil.copyfile(path_of(digest), folder / FOLDER / f"{digest}.safetensors")


def restore(folder: Path, digest: str) -> None:
    """Keep the weights that a run's folder has, unless they are here, or the folder has none."""
    copy, kept = folder / FOLDER / f"{digest}.safetensors", path_of(digest)
    if not kept.is_file() and copy.is_file() and sha256(copy) == digest:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with replacing(kept) as part:
            shutil.copyfile(copy, part)
