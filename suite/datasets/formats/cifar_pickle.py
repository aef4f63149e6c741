"""CIFAR-10's batches for Python: pickles, read without running anything that they name.

The arrays in them name functions of numpy. Classes of this file take their place.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np


class _Type:
    """In place of numpy.dtype."""

    def __init__(self, name: Any, *others: Any) -> None:
        self.name = name.decode() if isinstance(name, bytes) else name

    def __setstate__(self, state: Any) -> None: ...


class _Array:
    """In place of numpy.ndarray."""

    def __init__(self, *arguments: Any) -> None:
        self.values = np.empty(0, np.uint8)

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, in_columns, content = state
        if kind.name != "u1" or in_columns:
            raise ValueError("an array of another type than bytes")
        content = content.encode("latin1") if isinstance(content, str) else content
        self.values = np.frombuffer(content, np.uint8).reshape(shape)


def _encode(text: str, encoding: str = "latin1") -> bytes:
    return text.encode("latin1")


KNOWN = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("_codecs", "encode"): _encode,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in KNOWN:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is no part of a batch")
        return KNOWN[module, name]


def is_pickle(content: bytes) -> bool:
    return content[:1] == b"\x80" and content[1:2] in b"\x02\x03\x04\x05" and content[-1:] == b"."


def records(path: Path) -> bytes:
    """The batch as in the binary version; ValueError where it is another pickle."""
    try:
        with path.open("rb") as file:
            batch = _Unpickler(file, encoding="bytes").load()
        plain = {k.decode() if isinstance(k, bytes) else k: v for k, v in batch.items()}
        labels = np.array(plain["labels"], np.uint8)
        return np.column_stack([labels, plain["data"].values]).tobytes()
    except OSError:
        raise
    except Exception as error:  # a broken pickle raises any of them
        raise ValueError(f"no batch of CIFAR-10: {error}") from None
