"""The C library's allocator in a worker of the reference: freed memory is kept for later tensors.

By default glibc returns each large block to the kernel, which fills its pages with zeros at the
next use. A reference makes new large tensors in each layer. On eight cores this took half of its
time (docs/measurements/gpu.md).
"""

from __future__ import annotations

import ctypes

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # of malloc.h
NEVER = -1


def keep_freed_memory() -> None:
    """Take no block from the kernel directly, and return none. Does nothing without glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt:
        mallopt(M_MMAP_MAX, 0)
        mallopt(M_TRIM_THRESHOLD, NEVER)
