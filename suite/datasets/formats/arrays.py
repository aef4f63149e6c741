"""Reads NumPy's files of others, .npy and .npz: a damaged one is a ValueError."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from suite.archives import BROKEN

# MemoryError: the header has an impossible shape.
DAMAGED: tuple[type[Exception], ...] = (*BROKEN, MemoryError)


@contextmanager
def loaded(path: Path, *, several: bool = False) -> Iterator[Any]:
    """The array in an .npy file, or the `several` ones of an .npz file, for reading in the block.

    Raise ValueError where the file is damaged, is the other kind, or has pickled objects.
    """
    try:
        found = np.load(path, allow_pickle=False)
        if several != isinstance(found, np.lib.npyio.NpzFile):
            raise ValueError("one array, as in .npy" if several else "several arrays, as in .npz")
        with found if several else nullcontext(found) as values:
            yield values
    except DAMAGED as error:
        raise ValueError(str(error)) from None
