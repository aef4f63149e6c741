"""The names in a user's folder: which are of other programs, and how names are shown."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

SHOWN = 5  # names in one message
# Folders and files that systems and programs put beside the user's own, in lower case. Hidden ones
# (.DS_Store, .ipynb_checkpoints, ._x.jpg) begin with a dot.
HELPERS = {
    "#recycle",
    "#snapshot",
    "$recycle.bin",
    "@eadir",
    "@recently-snapshot",
    "@recycle",
    "@tmp",
    "__macosx",
    "__pycache__",
    "desktop.ini",
    "lost+found",
    "network trash folder",
    "recycler",
    "system volume information",
    "temporary items",
    "thumbs.db",
}


def is_helper(name: str) -> bool:
    """Whether another program made the file or folder, which is no part of a dataset."""
    return name.startswith(".") or name.lower() in HELPERS


def is_utf8(name: str) -> bool:
    """Whether the bytes of the name are UTF-8; others cannot be written into JSON."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(name: str | Path) -> str:
    """The name on one line, in UTF-8: other characters and bytes as escapes."""
    text = os.fsencode(name).decode("utf-8", errors="backslashreplace")
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def listed(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = len(names) - SHOWN
    return ", ".join(map(shown, names[:SHOWN])) + (f" and {more:,} more" if more > 0 else "")


def content(folder: Path) -> str:
    """A clause that says what is in the folder."""
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        return f"{shown(folder)}: {error.strerror}"
    there = [f"{each.name}/" if each.is_dir() else each.name for each in entries]
    return f"it has {listed(there)}" if there else "it is empty"
