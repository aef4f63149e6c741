"""PyTorch's matrix products and copies, for the hardware peak."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch

from ...protocol import Trial
from . import device

DTYPES = {"bfloat16": torch.bfloat16, "float64": torch.float64}


def operations(
    trial: Trial, precisions: Sequence[str], size: int, values: int
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The operations by name: products of matrices (size, size), a copy of `values` numbers."""
    device.prepare(trial)
    for name in precisions:
        dtype = DTYPES.get(name, torch.float32)
        a, b = (torch.rand(size, size, device=trial.device).to(dtype) for _ in range(2))
        c = torch.empty_like(a)
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        yield f"matmul_{name}", partial(torch.mm, a, b, out=c)
    source = torch.rand(values, device=trial.device)
    target = torch.empty_like(source)
    yield "copy", lambda: target.copy_(source)


def synchronize() -> None:
    """Wait for all operations."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
