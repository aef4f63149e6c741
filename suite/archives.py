"""Unpacks tar archives that others made, and knows the errors of damaged files."""

from __future__ import annotations

import lzma
import tarfile
import zipfile
import zlib
from pathlib import Path

# What the readers of archives, arrays and images raise where a file is damaged.
BROKEN: tuple[type[Exception], ...] = (
    *(OSError, EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
    *(ValueError, SyntaxError),  # of arrays and of PNGs
    RuntimeError,  # of an archive with a password, or compressed by a method that is not known
)


def extract(packed: tarfile.TarFile, folder: Path) -> None:
    """Unpack an archive; tarfile.TarError where an entry would be outside of `folder`.

    Python 3.11 before 3.11.4, as Debian 12 has it, has no filter: there, only files and folders are
    unpacked, and a link is an error.
    """
    if hasattr(tarfile, "data_filter"):
        packed.extractall(folder, filter="data")
        return
    top = folder.resolve()
    for entry in packed:
        if not (entry.isfile() or entry.isdir()):
            raise tarfile.ExtractError(f"{entry.name} is neither a file nor a folder")
        if not (top / entry.name).resolve().is_relative_to(top):
            raise tarfile.ExtractError(f"{entry.name} is outside of the folder")
    packed.extractall(folder)
