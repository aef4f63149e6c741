"""The shared format of prepared datasets, with the following files in a dataset's folder:

    <split>_inputs.npy   uint8 (N, channels, height, width), float32 (N, features), or tokens int32
                         (N, length)
    <split>_labels.npy   int32 (N,), class numbers from 0, or float32 (N, outputs)
    dataset.json         the dataset's name, its origin, the SHA-256 of each file
    stamps.json          only of an image folder: file sizes and times, to detect changes

`split` is `train` or `test`. Files are memory-mapped, never loaded completely.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter

from suite.datasets.names import SHOWN, shown
from suite.manifests.datasets import Split
from suite.paths import digest, sha256, write_atomically

FORMAT_VERSION = 2
DESCRIPTION = "dataset.json"
STAMPS = "stamps.json"
GENERATED = "made here"  # the origin of a dataset that is generated on this machine

_versions = TypeAdapter(dict[str, object])
_stamps = TypeAdapter(dict[str, tuple[int, int]])


class Images(BaseModel):
    """The content of the user's image folder from which a dataset was prepared."""

    model_config = ConfigDict(frozen=True)

    source_folder: str
    sha256: str  # of the names, sizes and times of its files
    classes: tuple[str, ...]  # a label is an index into these
    samples: dict[Split, int]
    unreadable: dict[str, str]  # file -> reason; omitted from the samples
    notes: tuple[str, ...] = ()  # what else the user should know about the folder

    def remarks(self, folder: Path) -> Iterator[str]:
        """The notes, and which files could not be read; `folder` is that of the dataset."""
        yield from self.notes
        if not self.unreadable:
            return
        omitted = sorted(self.unreadable)
        total = sum(self.samples.values()) + len(omitted)
        more = ", ..." if len(omitted) > SHOWN else ""
        yield (
            f"{len(omitted):,} of {total:,} files are unreadable and omitted: "
            f"{', '.join(map(shown, omitted[:SHOWN]))}{more}; "
            f"{folder / DESCRIPTION} lists all with the reason, of the first "
            f"{self.unreadable[omitted[0]]}"
        )


class Description(BaseModel):
    """The content of dataset.json."""

    model_config = ConfigDict(frozen=True)

    format_version: int = FORMAT_VERSION
    name: str
    origin: str
    files: dict[str, str]  # file -> SHA-256
    images: Images | None = None

    @property
    def fingerprint(self) -> str:
        """One digest of the contents of all files, computed from `files` without reading them."""
        return digest(f"{name} {self.files[name]}" for name in sorted(self.files))

    @property
    def source_folder(self) -> Path | None:
        """The user's image folder; None where the dataset was not prepared from one."""
        return Path(self.images.source_folder) if self.images else None


def read(folder: Path) -> Description | None:
    """The description of the dataset in `folder`; None where there is none of this version.

    Raise ValueError where it is damaged.
    """
    try:
        text = (folder / DESCRIPTION).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    if _versions.validate_json(text).get("format_version") != FORMAT_VERSION:
        return None
    return Description.model_validate_json(text)


def write(folder: Path, name: str, origin: str, images: Images | None = None) -> None:
    """Write dataset.json for the files in `folder`: the folder becomes a prepared dataset."""
    found = [*folder.glob("train_*"), *folder.glob("test_*")]
    files = {path.name: sha256(path) for path in sorted(found)}
    description = Description(name=name, origin=origin, files=files, images=images)
    if images:
        stamp(folder, description)
    text = description.model_dump_json(indent=2, exclude_none=True)
    write_atomically(folder / DESCRIPTION, text)


def stamp(folder: Path, description: Description) -> None:
    """Write stamps.json: the files match their digests at their present sizes and times."""
    stamps = {name: _stamp(folder / name) for name in description.files}
    write_atomically(folder / STAMPS, json.dumps(stamps, indent=2))


def damaged(folder: Path, description: Description, *, full: bool) -> str | None:
    """The name of the first file that is missing or does not match its digest.

    Unless `full`, a file whose size and time are those in stamps.json is taken as unchanged:
    reading the 190 GB of ImageNet takes many minutes.
    """
    stamps = {} if full else _read_stamps(folder)
    for name, expected in description.files.items():
        path = folder / name
        if not path.is_file():
            return name
        if stamps.get(name) != _stamp(path) and sha256(path) != expected:
            return name
    return None


def _read_stamps(folder: Path) -> dict[str, tuple[int, int]]:
    try:
        return _stamps.validate_json((folder / STAMPS).read_bytes())
    except (OSError, ValueError):  # without stamps, every file is compared with its digest
        return {}


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns
