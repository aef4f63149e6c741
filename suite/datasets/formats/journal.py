"""A journal of the completed parts of a long preparation, valid after a kill at any moment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Self

from suite import locks
from suite.errors import BusyError


class Journal:
    """One line for each chunk that is completely on the disk; a context manager.

    The first line is the `identity` of the preparation; a journal with another identity is cleared.
    Raise BusyError where another process has it open.
    """

    def __init__(self, path: Path, identity: str) -> None:
        self.done: dict[tuple[str, int], dict[str, str]] = {}  # (split, row) -> unreadable files
        self._identity = identity
        self._file = path.open("a+b")
        try:
            if not locks.try_lock(self._file.fileno(), path):
                raise BusyError(
                    "another dlsuite is preparing this dataset",
                    hint="wait until that one has ended",
                )
        except BaseException:
            self._file.close()
            raise
        self._read()

    def add(self, split: str, first: int, unreadable: dict[str, str]) -> None:
        """Record the chunk whose first row is `first` as done."""
        self.done[split, first] = unreadable
        self._append([split, first, unreadable])

    def clear(self) -> None:
        """Remove all entries."""
        self.done = {}
        self._file.truncate(0)
        self._append(self._identity)

    def _read(self) -> None:
        self._file.seek(0)
        content = self._file.read()
        whole = content[: content.rfind(b"\n") + 1]  # the last line may be incomplete
        try:
            identity, *done = map(json.loads, whole.splitlines())
        except ValueError:  # empty, or not a journal
            identity = None
        if identity != self._identity:
            self.clear()
            return
        self.done = {(split, first): unreadable for split, first, unreadable in done}
        self._file.truncate(len(whole))

    def _append(self, line: object) -> None:
        self._file.write(json.dumps(line).encode() + b"\n")
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()
