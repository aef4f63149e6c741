"""The shared format: what lies in a prepared dataset's folder, whatever form it came in.

    <split>_inputs.npy   uint8 (N, channels, height, width), or float32 (N, features)
    <split>_labels.npy   int32 (N,), class numbers from 0
    dataset.json         what it is, where it came from, the SHA-256 of each file
    stamps.json          of an image folder only: sizes and times by which a change is noticed

`split` is `train` or `test`. Files are memory-mapped, never loaded whole.
"""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter

from suite.manifests.datasets import Split
from suite.paths import digest, sha256, write_atomically

FORMAT_VERSION = 2
DESCRIPTION = "dataset.json"
STAMPS = "stamps.json"

_versions = TypeAdapter(dict[str, object])
_stamps = TypeAdapter(dict[str, tuple[int, int]])


class Images(BaseModel):
    """What the user's image folder held, from which a dataset was made."""

    model_config = ConfigDict(frozen=True)

    source_folder: str
    sha256: str  # of the names, sizes and times of its files
    classes: tuple[str, ...]  # a label is an index into these
    samples: dict[Split, int]
    unreadable: dict[str, str]  # file -> why; left out of the samples


class Description(BaseModel):
    """dataset.json"""

    model_config = ConfigDict(frozen=True)

    format_version: int = FORMAT_VERSION
    name: str
    origin: str
    files: dict[str, str]  # file -> SHA-256
    images: Images | None = None

    @property
    def fingerprint(self) -> str:
        """One digest of all that is in the files; nothing is read for it."""
        return digest(f"{name} {self.files[name]}" for name in sorted(self.files))

    @property
    def source_folder(self) -> Path | None:
        """The user's image folder; None where the dataset was not made from one."""
        return Path(self.images.source_folder) if self.images else None


def read(place: Path) -> Description | None:
    """None where nothing is prepared in this version of the format; ValueError where damaged."""
    try:
        text = (place / DESCRIPTION).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    if _versions.validate_json(text).get("format_version") != FORMAT_VERSION:
        return None
    return Description.model_validate_json(text)


def write(place: Path, name: str, origin: str, images: Images | None = None) -> None:
    """Describe the files that lie in `place`, which makes it a prepared dataset."""
    found = [*place.glob("train_*"), *place.glob("test_*")]
    files = {path.name: sha256(path) for path in sorted(found)}
    description = Description(name=name, origin=origin, files=files, images=images)
    if images:
        stamp(place, description)
    text = description.model_dump_json(indent=2, exclude_none=True)
    write_atomically(place / DESCRIPTION, text)


def stamp(place: Path, description: Description) -> None:
    """Note that the files, as they are now, have the digests that dataset.json says."""
    stamps = {name: _stamp(place / name) for name in description.files}
    write_atomically(place / STAMPS, json.dumps(stamps, indent=2))


def damaged(place: Path, description: Description, *, full: bool) -> str | None:
    """The name of the first file that is missing or not what its digest says.

    Unless `full`, a file of the size and time that stamps.json has for it is taken as right: to
    read the 190 GB of ImageNet takes many minutes.
    """
    stamps = {} if full else _read_stamps(place)
    for name, wanted in description.files.items():
        path = place / name
        if not path.is_file():
            return name
        if stamps.get(name) != _stamp(path) and sha256(path) != wanted:
            return name
    return None


def _read_stamps(place: Path) -> dict[str, tuple[int, int]]:
    try:
        return _stamps.validate_json((place / STAMPS).read_bytes())
    except (OSError, ValueError):  # then the digests decide
        return {}


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns
